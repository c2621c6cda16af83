/**
 * Hands over each line of a stream of text, also a last line without an end.
 * @param maxLine the longest line, in characters. Of a longer line, the rest is left out
 */
export function splitLines(
  stream: NodeJS.ReadableStream,
  onLine: (line: string) => void,
  maxLine = 2000,
): void {
  let rest = ''
  let isCut = false
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (!isCut) onLine(line.slice(0, maxLine))
      isCut = false
    }
    if (rest.length > maxLine) {
      if (!isCut) onLine(rest.slice(0, maxLine))
      isCut = true
      rest = ''
    }
  })
  stream.on('end', () => {
    if (rest !== '' && !isCut) onLine(rest)
  })
}
