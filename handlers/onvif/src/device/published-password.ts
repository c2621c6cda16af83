/** Shorter passwords are in many URIs by chance. */
const MIN_CHARACTERS = 4
/** Some cameras write a URI with the password as a parameter into a parameter. */
const MAX_DECODINGS = 2

/**
 * Whether a reader of a URI can find a password in it. Cameras write the password into the path or
 * the query, each in its own encoding.
 * @param uri the `href` of a URL
 */
export function hasPassword(uri: string, password: string): boolean {
  if (password.length < MIN_CHARACTERS) return false
  // Its bytes in UTF-8 and in Latin-1, each as a character.
  const encodings = [Buffer.from(password).toString('latin1'), password]
  let texts = [uri]
  for (let decodings = 0; ; decodings++) {
    if (texts.some((text) => encodings.some((bytes) => text.includes(bytes)))) return true
    if (decodings === MAX_DECODINGS) return false
    texts = texts.flatMap((text) => [decoded(text), decoded(text.replaceAll('+', ' '))])
  }
}

/** Each `%` with two digits becomes the character of the byte; other text stays. */
function decoded(text: string): string {
  return text.replace(/%([\da-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}
