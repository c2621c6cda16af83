/** A text as one word of a command line that a person can copy. */
export function shellWord(text: string): string {
  return /^[\w./@-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
