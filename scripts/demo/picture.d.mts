/** A picture with a title, the date and the time, and a bar that grows with the seconds: a JPEG. */
export function picture(title: string, time: Date): Buffer
