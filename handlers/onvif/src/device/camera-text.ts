/**
 * A text that a camera says, fit for an environment variable, a log line or an error: on one line, without characters that steer a
 * terminal, and no longer than that many characters.
 */
export function cameraText(text: string, most = 256): string {
  const plain = text.slice(0, 8 * most).replace(/[\p{C}\p{Z}]+/gu, ' ')
  const characters = [...plain.trim()]
  return characters.length > most ? `${characters.slice(0, most).join('')}…` : characters.join('')
}
