import { StringDecoder } from 'node:string_decoder'
import { setImmediate } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { printable } from '../text/printable.js'
import type { Logger } from './logger.js'

/** The most warnings of Node.js that are logged: each text is logged once. */
const MAX_WARNINGS = 100
/** The longest line of other output that is logged, in characters. */
const MAX_LINE = 2000

/**
 * Keeps warnings of Node.js off the standard error: they are no lines of a log.
 * @returns logs the warnings of before, and later ones
 */
export function holdWarnings(): (log: Logger) => void {
  // The listener of Node.js prints.
  process.removeAllListeners('warning')
  const held: Error[] = []
  let take = (warning: Error): void => void held.push(warning)
  process.on('warning', (warning) => take(warning))
  return (log) => {
    const texts = new Set<string>()
    take = (warning) => {
      const text = `${warning.name}: ${warning.message}`
      if (texts.has(text) || texts.size >= MAX_WARNINGS) return
      texts.add(text)
      // A deprecation is for the authors of the library that uses it.
      const level = warning.name === 'DeprecationWarning' ? 'debug' : 'warn'
      log[level]({ err: warning }, 'Node.js warned')
    }
    for (const warning of held.splice(0)) take(warning)
  }
}

/** The functions that write to redirected streams. */
const writes = new Map<NodeJS.WriteStream, NodeJS.WriteStream['write']>()

/** Writes to a stream, past {@link redirectOutput}: the output of the program itself. */
export function print(stream: NodeJS.WriteStream, text: string): void {
  const write = writes.get(stream) ?? stream.write
  write.call(stream, text)
}

/**
 * Resolves when the text of before is written, or after the stream emitted the error of it.
 * process.exit() waits for neither: a pipe holds 64 KiB, and the rest of the text is lost.
 */
export async function printed(stream: NodeJS.WriteStream): Promise<void> {
  const write = writes.get(stream) ?? stream.write
  // An empty write fails on a full disk too: no text, no error.
  if (stream.writableLength > 0)
    await new Promise<void>((resolve) => void write.call(stream, '', undefined, () => resolve()))
  // The stream emits an error after the callbacks of its writes.
  await setImmediate()
}

/**
 * Logs what libraries and handlers write to the standard output and to the standard error, a line
 * each. The program itself writes by {@link print}, or to the files.
 * @param level of the text on standard output
 */
export function redirectOutput(log: Logger, level: 'info' | 'warn' = 'info'): void {
  redirect(process.stdout, (text) => log[level]({ text }, 'text on standard output'))
  redirect(process.stderr, (text) => log.warn({ text }, 'text on standard error'))
}

function redirect(stream: NodeJS.WriteStream, logLine: (text: string) => void): void {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  const take = (lines: readonly string[]) => {
    for (const line of lines) {
      const text = printable(stripVTControlCharacters(line)).trimEnd()
      if (text !== '') logLine(text.slice(0, MAX_LINE))
    }
  }
  process.on('exit', () => take([rest]))
  writes.set(stream, stream.write)
  stream.write = (
    chunk: string | Uint8Array,
    encoding?: BufferEncoding | ((error?: Error | null) => void),
    callback?: (error?: Error | null) => void,
  ): boolean => {
    rest += typeof chunk === 'string' ? chunk : decoder.write(Buffer.from(chunk))
    const lines = rest.split(/\r?\n/)
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE) lines.push(rest)
    if (rest.length > MAX_LINE) rest = ''
    take(lines)
    const done = typeof encoding === 'function' ? encoding : callback
    if (done !== undefined) process.nextTick(done)
    return true
  }
}
