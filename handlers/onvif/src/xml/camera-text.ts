/**
 * A text from a camera, safe for an environment variable, a log line or an error: on one line,
 * without control characters of a terminal, and with a limited number of characters.
 */
export function cameraText(text: string, maxCharacters = 256): string {
  const plain = text.slice(0, 8 * maxCharacters).replace(/[\p{C}\p{Z}]+/gu, ' ')
  const characters = [...plain.trim()]
  return characters.length > maxCharacters
    ? `${characters.slice(0, maxCharacters).join('')}…`
    : characters.join('')
}
