/** The longest line, in characters. Longer lines are cut. */
const MAX_LINE = 2000

/** Hands over each line of a stream of text, also a last line without an end. */
export function splitLines(stream: NodeJS.ReadableStream, onLine: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line.slice(0, MAX_LINE))
    if (rest.length > MAX_LINE) {
      onLine(rest.slice(0, MAX_LINE))
      rest = ''
    }
  })
  stream.on('end', () => {
    if (rest !== '') onLine(rest)
  })
}
