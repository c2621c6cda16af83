import { StringDecoder } from 'node:string_decoder'

const LEVEL = /^(trace|debug|info|warn|error|fatal)$/
/** The most lines that are kept, and their longest part, in characters. */
const MAX_LINES = 20
const MAX_LENGTH = 1000

/** Finds what a process writes besides lines of its log, and warnings of leaked listeners. */
export class LogLines {
  readonly #decoder = new StringDecoder('utf8')
  readonly #stray: string[]
  #rest = ''

  /** @param stray where it adds the first such lines, for several processes */
  constructor(stray: string[]) {
    this.#stray = stray
  }

  /** A line that the kill of the process cut off is left out. */
  add(chunk: Buffer): void {
    const lines = (this.#rest + this.#decoder.write(chunk)).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines)
      if (this.#stray.length < MAX_LINES && isStray(line))
        this.#stray.push(line.slice(0, MAX_LENGTH))
  }
}

function isStray(line: string): boolean {
  try {
    const { level, time, name, msg, err } = Object(JSON.parse(line))
    const isLine =
      LEVEL.test(level) && Number.isInteger(time) && [name, msg].every((each) => isText(each))
    return !isLine || err?.name === 'MaxListenersExceededWarning'
  } catch {
    return true
  }
}

const isText = (value: unknown) => typeof value === 'string' && value !== ''
