/**
 * The time of a header `Date`, in milliseconds since the epoch. Undefined unless it is written as in
 * RFC 9110, section 5.6.7, with the right day of the week: a text that JavaScript only guesses is no
 * time.
 */
export function readHttpDate(text: string): number | undefined {
  const time = text.length === LENGTH ? Date.parse(text) : Number.NaN
  return time >= 0 && new Date(time).toUTCString() === text ? time : undefined
}

const LENGTH = 'Sun, 06 Nov 1994 08:49:37 GMT'.length
