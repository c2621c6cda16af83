import { realpathSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** A place in the code of a handler of this process. */
export interface HandlerPlace {
  /** The handler's name; the path of its module until it is loaded. */
  readonly handler: string
  readonly place: string
}

/**
 * The handlers of this process, by the directory of their code. The events of a process that name a
 * handler are those of the whole process, too.
 */
const handlers = new Map<string, string>()
const MAX_HANDLERS = 1000
/** Folders of a package: its other folders are code of the handler too. */
const FOLDERS = ['dist', 'lib', 'src', 'build']
let onNoted: () => void = () => {}

/** @param url the URL of the module of the handler */
export function noteHandler(url: string, name: string): void {
  const directory = directoryOf(url)
  if (directory === undefined || (handlers.size >= MAX_HANDLERS && !handlers.has(directory))) return
  handlers.set(directory, name)
  onNoted()
}

/** The handlers by the directory of their code. */
export function notedHandlers(): ReadonlyMap<string, string> {
  return handlers
}

/** @param listener called after each change of the handlers, and now */
export function onHandlers(listener: () => void): void {
  onNoted = listener
  listener()
}

/** The innermost place in the code of a handler, of the lines of a stack. */
export function handlerPlaceIn(
  stack: string,
  directories: ReadonlyMap<string, string> = handlers,
): HandlerPlace | undefined {
  for (const line of stack.slice(0, MAX_STACK).split('\n')) {
    const [, place = '', number] =
      /(?:\(|at (?:async )?)((?:file:\/\/)?\/.*):(\d+):\d+\)?$/.exec(line) ?? []
    const file = place.startsWith('file:') ? pathOf(place) : place
    for (const [directory, handler] of directories) {
      const isIn = file?.startsWith(directory + path.sep)
      // What a handler depends on is called by the handler: a later line names it.
      if (isIn && !file?.slice(directory.length).includes('/node_modules/'))
        return { handler, place: `${file}:${number}` }
    }
  }
  return undefined
}

const MAX_STACK = 64 * 1024

/** The present stack, deep enough for code that called much. */
export function presentStack(): string {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 100
  const { stack = '' } = new Error('the stack')
  Error.stackTraceLimit = stackTraceLimit
  return stack
}

function directoryOf(url: string): string | undefined {
  try {
    const directory = path.dirname(realpathSync(fileURLToPath(url)))
    return FOLDERS.includes(path.basename(directory)) ? path.dirname(directory) : directory
  } catch {
    return undefined
  }
}

function pathOf(url: string): string | undefined {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}
