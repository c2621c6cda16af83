import { readFileSync, realpathSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** The name of a handler, or all names that are possible. */
export type HandlerNames = { readonly handler: string } | { readonly handlers: readonly string[] }

/** A place in the code of a handler of this process. */
export type HandlerPlace = HandlerNames & { readonly place: string }

/**
 * The handlers of this process, by the files of their modules; the path or the package of a handler
 * until it is loaded. The events of a process that name a handler are those of the whole process,
 * too.
 */
const handlers = new Map<string, string>()
/** A test of an author may load a handler again and again. */
const MAX_HANDLERS = 1000
/** Folders of a package: its other folders are code of the handler too. */
const FOLDERS = ['dist', 'lib', 'src', 'build']
/** Handlers that are tested as a part of akri.js: the files of their modules. */
const builtIn = new Set<string>()
/** The names of their packages. */
const BUILT_IN = /^@akrijs\/handler-/
let onNoted: () => void = () => {}

/** @param url the URL of the module of the handler */
export function noteHandler(url: string, name: string): void {
  const file = moduleFile(url)
  if (file === undefined || (handlers.size >= MAX_HANDLERS && !handlers.has(file))) return
  handlers.set(file, name)
  if (BUILT_IN.test(packageOf(file))) builtIn.add(file)
  onNoted()
}

/** The name of the package whose folder `dist` or `src` has the file; empty if there is none. */
function packageOf(file: string): string {
  try {
    const manifest = path.join(path.dirname(file), '../package.json')
    const { name }: { readonly name?: unknown } = JSON.parse(readFileSync(manifest, 'utf8'))
    return String(name)
  } catch {
    return ''
  }
}

/** The handlers by the files of their modules. */
export function notedHandlers(): ReadonlyMap<string, string> {
  return handlers
}

/** Whether there is a handler that is not built in. */
export function hasForeignHandler(modules: ReadonlyMap<string, string> = handlers): boolean {
  return [...modules.keys()].some((file) => !builtIn.has(file))
}

/** @param listener called after each change of the handlers, and now */
export function onHandlers(listener: () => void): void {
  onNoted = listener
  listener()
}

/** The innermost place in the code of a handler, of the lines of a stack. */
export function handlerPlaceIn(
  stack: string,
  modules: ReadonlyMap<string, string> = handlers,
): HandlerPlace | undefined {
  let place: string | undefined
  let names: readonly string[] = []
  for (const { file, line } of stackPlaces(stack)) {
    const owners = isOwnFile(file) ? [] : ownersOf(file, modules)
    if (owners.length === 0) continue
    // A file that several handlers share: a later line can be in the code of one of them.
    if (
      place === undefined ||
      (owners.length === 1 && owners.every((name) => names.includes(name)))
    )
      names = owners
    place ??= `${file}:${line}`
    if (names.length === 1) break
  }
  return place === undefined ? undefined : { ...asNames(names), place }
}

/**
 * The handler that an error which nothing handles comes from. The stack of a callback of Node.js or
 * of a library names no handler: then all of them, unless the error comes from this program.
 */
export function handlerOfError(
  error: unknown,
  modules: ReadonlyMap<string, string> = handlers,
): HandlerPlace | HandlerNames | undefined {
  const stack = error instanceof Error && typeof error.stack === 'string' ? error.stack : ''
  return handlerPlaceIn(stack, modules) ?? candidates(stackPlaces(stack), modules)
}

/** The same for the stack of a process that ends; undefined if this program ends it. */
export function handlerOfExit(
  stack: string,
  modules: ReadonlyMap<string, string> = handlers,
): HandlerPlace | HandlerNames | undefined {
  const at = handlerPlaceIn(stack, modules)
  const [, callers] = stack.split(/\n +at process\.exit .*/)
  if (at !== undefined || callers === undefined) return at
  return candidates(stackPlaces(callers), modules)
}

/** @param places those of a stack without a place in the code of a handler */
function candidates(
  [innermost]: readonly StackPlace[],
  modules: ReadonlyMap<string, string>,
): HandlerNames | undefined {
  if (!hasForeignHandler(modules) || (innermost && isOwnFile(innermost.file))) return undefined
  return { handlers: [...new Set(modules.values())] }
}

/** Whether a line of a stack is in code that the author of a handler writes: in no library. */
export function isAuthorsLine(line: string): boolean {
  const file = placeOf(line)?.file
  if (file === undefined) return false
  return !file.includes(LIBRARIES) || ownersOf(file, handlers).length > 0
}

/**
 * The directories of our code in this process. A handler can load another copy of the SDK than the
 * program, and not from `node_modules`: in a clone of akri.js.
 */
const ownDirectories = sharedSet(Symbol.for('akri.ownDirectories')).add(import.meta.dirname)

function sharedSet(key: symbol): Set<unknown> {
  const found: unknown = Reflect.get(globalThis, key)
  const shared = found instanceof Set ? found : new Set<unknown>()
  Reflect.set(globalThis, key, shared)
  return shared
}

/** Whether a file is of this program, or of the SDK that a handler uses. */
function isOwnFile(file: string): boolean {
  return [...ownDirectories].some((directory) => file.startsWith(`${directory}${path.sep}`))
}

/** Whether a line of a stack is in such a file. */
export function isOwnLine(line: string): boolean {
  const file = placeOf(line)?.file
  return file !== undefined && isOwnFile(file)
}

/** Whether a line of a stack is in the code of a built-in handler. */
export function isBuiltInLine(line: string): boolean {
  const file = placeOf(line)?.file ?? ''
  return [...builtIn].some((module) => file.startsWith(`${path.dirname(module)}${path.sep}`))
}

const LIBRARIES = '/node_modules/'

/** The handlers that a file is code of. */
function ownersOf(file: string, modules: ReadonlyMap<string, string>): readonly string[] {
  const exact = modules.get(file)
  if (exact !== undefined) return [exact]
  let names = new Set<string>()
  let longest = 0
  for (const [module, name] of modules) {
    for (const directory of directoriesOf(module)) {
      const isIn = directory.length >= longest && file.startsWith(directory + path.sep)
      // What a handler depends on is called by the handler: a later line names it.
      if (!isIn || file.slice(directory.length).includes(LIBRARIES)) continue
      if (directory.length > longest) names = new Set()
      longest = directory.length
      names.add(name)
    }
  }
  return [...names]
}

function directoriesOf(module: string): readonly string[] {
  const directory = path.dirname(module)
  return FOLDERS.includes(path.basename(directory))
    ? [directory, path.dirname(directory)]
    : [directory]
}

function asNames(names: readonly string[]): HandlerNames {
  const [handler = '', ...others] = names
  return others.length === 0 ? { handler } : { handlers: names }
}

/** The longest part of a stack that is read: an error may carry any text. */
const MAX_STACK = 64 * 1024
/** The longest line with a place: a path has at most 4096 bytes. */
const MAX_LINE = 5000

interface StackPlace {
  readonly file: string
  readonly line: string
}

/** The places of a stack that are in files. */
function stackPlaces(stack: string): readonly StackPlace[] {
  const lines = stack.slice(0, MAX_STACK).split('\n')
  return lines.map(placeOf).filter((place) => place !== undefined)
}

function placeOf(text: string): StackPlace | undefined {
  if (text.length > MAX_LINE) return undefined
  // Two steps, each of linear time: a message of an error can be a line of the stack.
  const end = /:(\d+):\d+\)?$/.exec(text)
  const before = text.slice(0, end?.index ?? 0)
  const start = /(?:\(|at (?:async )?)(?=(?:file:\/\/)?\/)/.exec(before)
  const place = start === null ? '' : before.slice(start.index + start[0].length)
  const line = end?.[1] ?? ''
  const file = place.startsWith('file:') ? pathOf(place) : place
  return file ? { file, line } : undefined
}

/** The present stack, deep enough for code that called much. */
export function presentStack(): string {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 100
  const { stack = '' } = new Error('the stack')
  Error.stackTraceLimit = stackTraceLimit
  return stack
}

function moduleFile(url: string): string | undefined {
  try {
    return realpathSync(fileURLToPath(url))
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
