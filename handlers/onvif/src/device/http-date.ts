/**
 * The time of a header `Date`, in milliseconds since the epoch. Undefined unless the header is
 * written as in RFC 9110, section 5.6.7, with the right day of the week: JavaScript would guess a
 * time from many other texts.
 */
export function readHttpDate(text: string): number | undefined {
  const time = text.length === LENGTH ? Date.parse(text) : Number.NaN
  return time >= 0 && new Date(time).toUTCString() === text ? time : undefined
}

const LENGTH = 'Sun, 06 Nov 1994 08:49:37 GMT'.length
