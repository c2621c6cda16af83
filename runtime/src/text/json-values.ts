const [QUOTE, BACKSLASH, BRACE, BRACKET, COMMA] = Buffer.from('"\\{[,')

/**
 * An upper bound of the values in a JSON text: each value but the first follows one of `{`, `[` and
 * `,`. Those in strings do not count.
 */
export function mostJsonValues(json: Buffer): number {
  let count = 1
  let isInString = false
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (byte === QUOTE) isInString = !isInString
    else if (isInString) {
      if (byte === BACKSLASH) at++
    } else if (byte === BRACE || byte === BRACKET || byte === COMMA) count++
  }
  return count
}
