/**
 * Hands over each line of a stream of text, also a last line without an end.
 * @param maxLine the longest line, in characters. Longer lines are cut
 */
export function splitLines(
  stream: NodeJS.ReadableStream,
  onLine: (line: string) => void,
  maxLine = 2000,
): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line.slice(0, maxLine))
    if (rest.length > maxLine) {
      onLine(rest.slice(0, maxLine))
      rest = ''
    }
  })
  stream.on('end', () => {
    if (rest !== '') onLine(rest)
  })
}
