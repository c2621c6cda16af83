// Warnings of the API server in the logs of our programs: a test fails on each that it does not
// expect. Without vitest: benches start programs too.

/** The message in the log of each program; see `warningLogger`. */
const MESSAGE = 'API server warned'

interface Log {
  read(): string
  checkedTo: number
}

const logs: Log[] = []
const finished: string[] = []
const expected: RegExp[] = []

/** @param read the log so far: it only grows */
export function followLog(read: () => string): void {
  logs.push({ read, checkedTo: 0 })
}

/** A log of which nothing was read before. */
export function readLog(text: string): void {
  finished.push(...text.split('\n'))
}

/** The tests of this file cause warnings with such a text. */
export function expectServerWarnings(text: RegExp): void {
  expected.push(text)
}

/** The lines with warnings since the last call. @param expectedTexts patterns to leave out */
export function unexpectedServerWarnings(expectedTexts: readonly RegExp[] = expected): string[] {
  const lines = [...finished.splice(0), ...logs.flatMap(completeLines)]
  return lines.filter(
    (line) => line.includes(MESSAGE) && !expectedTexts.some((pattern) => pattern.test(line)),
  )
}

/** The new lines of a log. A line without its end comes with the next call. */
function completeLines(log: Log): string[] {
  const text = log.read()
  const end = text.lastIndexOf('\n') + 1
  const lines = text.slice(log.checkedTo, end).split('\n')
  log.checkedTo = Math.max(end, log.checkedTo)
  return lines
}
