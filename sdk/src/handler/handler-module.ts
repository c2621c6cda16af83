import module from 'node:module'
import {
  fieldOf,
  hasForeignHandler,
  isRecord,
  messageOf,
  noteHandler,
  readableError,
  untilAborted,
  withTimeLimit,
} from '@akrijs/runtime'
import { HandlerPackageError } from './errors.js'
import { placeFetchErrors } from './fetch-places.js'
import { type DiscoveryHandler, HANDLER_CONTRACT, isDiscoveryHandler } from './handler.js'
import { excerptOf, syntaxErrorPlace } from './syntax-error-place.js'

/** The names of modules that Node.js can load. */
const MODULE_NAME = /\.[cm]?[jt]s$/

/** Whether a specifier looks like the file of a module, such as `sensor.js`. */
export function isModuleName(specifier: string): boolean {
  return MODULE_NAME.test(specifier)
}

/** An import that lasts longer does not hold up the next one, in milliseconds. */
const TURN_MS = 10_000
/** The end of the import before. */
let turn: Promise<unknown> = Promise.resolve()

/**
 * Imports the handler that a module exports as its default: an ECMAScript module, CommonJS, or
 * TypeScript where Node.js removes types. Handlers are imported one after the other: CommonJS
 * cannot require an ECMAScript module that another import is just loading.
 *
 * @param url the URL of the module
 * @param subject names the module in errors
 * @throws HandlerPackageError with the module and the fix
 */
export function importHandler(url: string, subject: string): Promise<DiscoveryHandler> {
  const importing = turn.then(() => importNow(url, subject))
  const ended = importing.catch(() => undefined)
  turn = turn.then(() =>
    withTimeLimit(TURN_MS, new AbortController().signal, (limited) => untilAborted(ended, limited)),
  )
  return importing
}

async function importNow(url: string, subject: string): Promise<DiscoveryHandler> {
  let loaded: unknown
  noteHandler(url, subject)
  placeFetchErrors()
  // Those of libraries can be large: those of node-opcua-client take 9 MB.
  if (hasForeignHandler() && !url.includes('/node_modules/')) readSourceMaps()
  try {
    loaded = await import(url)
  } catch (thrown) {
    const error = readableError(thrown)
    const { place, cause } = await withPlace(error, url)
    throw new HandlerPackageError(`${subject} cannot be loaded: ${place}${loadProblem(error)}`, {
      cause,
    })
  }
  const exported = fieldOf(loaded, 'default')
  // Compilers write `export default` as `exports.default` into CommonJS.
  const handler = isDiscoveryHandler(exported) ? exported : fieldOf(exported, 'default')
  if (!isDiscoveryHandler(handler))
    throw new HandlerPackageError(
      `${subject} does not export a handler as its default; export the result of ` +
        'defineDiscoveryHandler',
    )
  if (handler.contract !== HANDLER_CONTRACT)
    throw new HandlerPackageError(
      `${subject} was built with contract ${handler.contract}; this program has ` +
        `${HANDLER_CONTRACT}`,
    )
  noteHandler(url, handler.name)
  return handler
}

/** Lets stacks name the lines that a compiler read. */
function readSourceMaps(): void {
  if (process.sourceMapsEnabled) return
  // From Node.js 22.14 on.
  const setSupport: unknown = Reflect.get(module, 'setSourceMapsSupport')
  if (typeof setSupport === 'function') setSupport(true, { nodeModules: false })
  else process.setSourceMapsEnabled(true)
}

/** Adds the place of a SyntaxError, which an import() does not tell. */
async function withPlace(error: unknown, url: string) {
  if (!(error instanceof SyntaxError)) return { place: '', cause: error }
  const stack = error.stack ?? ''
  // An error of TypeScript begins with its place.
  const lines = excerptOf(stack.split('\n')) ?? (await syntaxErrorPlace(url))
  if (lines === undefined) return { place: '', cause: error }
  const cause = new SyntaxError(error.message)
  cause.stack = `${lines.join('\n')}\n\n${stack}`
  return { place: `${lines[0]}: `, cause }
}

function loadProblem(error: unknown): string {
  // Node.js adds the stack of requires in further lines.
  const [reason = ''] = messageOf(error).split('\n')
  const isTypeScript =
    isRecord(error) && error.code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[cm]?ts\b/.test(reason)
  if (!isTypeScript) return reason
  return (
    `Node.js ${process.versions.node} does not run TypeScript (${reason}); use Node.js 22.18 or ` +
    'newer, or compile the module to JavaScript first'
  )
}
