import {
  type Clock,
  errorFromFields,
  errorText,
  isRecord,
  LOG_LEVELS,
  type Logger,
  type LogLevel,
  printable,
  runAfter,
  TokenBucket,
} from '@akrijs/runtime'

/** The longest line of a handler that is read, in characters: room for the stack of an error. */
export const MAX_HANDLER_LINE = 16 * 1024
/** A handler must not fill the log of the node: a burst of lines, then one in 100 ms. */
const LINES = { burst: 300, refillMs: 100 }
/** A handler that writes no more lines has its left-out lines counted after this time. */
const COUNT_MS = 10_000
/** The last lines of a process, which are logged with its end. */
const LAST = { lines: 10, characters: 300 }
/** What akri-handler writes before the fields of the handler, which can have the same names. */
const HEAD =
  /^\{"level":"(\w+)",(?:"time":\d+,)?(?:"pid":\d+,)?(?:"hostname":"[^"]*",)?"name":"akri-handler",/
/** Fields that the log of the agent sets itself. */
const SET = new Set(['level', 'time', 'handler', 'msg', 'err'])

/** The output of a handler's process, as lines of the log of the agent. */
export class IsolatedOutput {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #budget: TokenBucket
  #last: string[] = []
  #leftOut = 0
  #counted = new AbortController()

  /** @param log has the name of the handler */
  constructor(log: Logger, clock: Clock) {
    this.#log = log
    this.#clock = clock
    this.#budget = new TokenBucket({ clock, ...LINES })
  }

  /** @param level of a line that is not a line of a log, such as a crash of Node.js */
  take(line: string, level: 'info' | 'warn'): void {
    const read = readLine(line, level)
    if (read.words === '') return
    this.#last.push(read.words.slice(0, LAST.characters))
    if (this.#last.length > LAST.lines) this.#last.shift()
    if (this.#budget.take() > 0) {
      if (this.#leftOut++ === 0)
        runAfter(this.#clock, COUNT_MS, this.#counted.signal, () => this.#logLeftOut())
      return
    }
    this.#logLeftOut()
    this.#log[read.level](read.fields, read.message)
  }

  /** The last lines since the last call, for the end of the process. */
  takeLast(): readonly string[] {
    this.#logLeftOut()
    const last = this.#last
    this.#last = []
    return last
  }

  #logLeftOut(): void {
    if (this.#leftOut === 0) return
    this.#log.warn({ lines: this.#leftOut }, 'lines of the handler left out')
    this.#leftOut = 0
    this.#counted.abort()
    this.#counted = new AbortController()
  }
}

interface Line {
  readonly level: LogLevel
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
  /** The line among the last lines of the process. */
  readonly words: string
}

/** @param level of a line that is no line of the log of akri-handler */
function readLine(line: string, level: LogLevel): Line {
  const text = printable(line).trimEnd()
  const plain = { level, fields: { text }, message: 'isolated handler wrote a line', words: text }
  const [head, name] = HEAD.exec(line) ?? []
  const ownLevel = LOG_LEVELS.find((known) => known === name)
  if (head === undefined || ownLevel === undefined) return plain
  const fieldsText = line.slice(head.length)
  let read: unknown
  try {
    read = JSON.parse(`{${fieldsText}`)
  } catch {
    // The line was too long, and its end is left out.
    const words = printable(fieldsText)
    const message = 'isolated handler wrote a long line'
    return { level: ownLevel, fields: { text: words }, message, words }
  }
  if (!isRecord(read) || typeof read.msg !== 'string') return plain
  const fields = Object.fromEntries(Object.entries(read).filter(([name]) => !SET.has(name)))
  const message = printable(read.msg)
  // What the handler printed, such as by `console.log`.
  const said = typeof read.text === 'string' ? read.text : message
  if (read.err === undefined) return { level: ownLevel, fields, message, words: said }
  const err = errorFromFields(read.err)
  const words = `${message}: ${errorText(err)}`
  return { level: ownLevel, fields: { ...fields, err }, message, words }
}
