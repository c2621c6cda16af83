import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  fieldOf,
  isRecord,
  messageOf,
  nearest,
  shorten,
  untilAborted,
  withTimeLimit,
} from '@akrijs/runtime'
import { HandlerPackageError } from './errors.js'
import { type DiscoveryHandler, HANDLER_CONTRACT } from './handler.js'
import { importHandler, isModuleName } from './handler-module.js'

/** How long a module may take to load when its handler's name is read, in milliseconds. */
export const MODULE_LOAD_MS = 30_000

/** An npm package with a handler, read from its package.json alone; or a file with a handler. */
export interface HandlerPackage {
  /** The handler's name, as in Configurations. */
  readonly name: string
  readonly package: string
  /** `unknown` for a file. */
  readonly version: string
  /** The module that exports the handler as its default. */
  readonly module: string
  /** Imports the handler. */
  load(): Promise<DiscoveryHandler>
}

/** Reads the name of the handler that a module exports, which needs its code to run. */
export type ReadHandlerName = (module: string) => Promise<string>

/**
 * Finds a handler: a package, or the file of a module. Checks the package.json of a package:
 * `"akri": { "contract": 1, "handlers": [{ "name": "udev" }] }`, and does not import it.
 *
 * @param specifier the name of an npm package, the path of one (`./sensor`, `/opt/sensor`), or the
 * path of a module (`./sensor.js`)
 * @param from a directory: packages are resolved as for a module in this directory
 * @param readName for a module. @default imports it into this process
 * @throws HandlerPackageError with the package or module, and the fix
 */
export async function findHandlerPackage(
  specifier: string,
  from: string,
  readName: ReadHandlerName = importedName,
): Promise<HandlerPackage> {
  const module = moduleFile(specifier, from)
  if (module !== undefined) return findHandlerModule(module, readName)
  const directory = packageDirectory(specifier, from)
  const refuse = (what: string): never => {
    throw new HandlerPackageError(`handler package ${specifier}: ${what}`)
  }
  if (directory === undefined) return refuse(absence(specifier, from))
  const file = path.join(directory, 'package.json')
  const manifest = await readFile(file, 'utf8')
    .then(parseManifest)
    .catch((error: unknown) => refuse(`${file} cannot be read: ${messageOf(error)}`))
  const akri = fieldOf(manifest, 'akri')
  if (akri === undefined)
    return refuse(
      `${file} has no field "akri"; a handler's package has "akri": { "contract": ` +
        `${HANDLER_CONTRACT}, "handlers": [{ "name": "…" }] }`,
    )
  const contract = fieldOf(akri, 'contract')
  if (typeof contract !== 'number') {
    const other = isRecord(akri) ? nearest('contract', Object.keys(akri)) : undefined
    const what = contract === undefined ? 'missing' : shorten(contract)
    const misspelt = contract === undefined && other ? `; is ${shorten(other)} meant?` : ''
    return refuse(`akri.contract in ${file} must be ${HANDLER_CONTRACT}; it is ${what}${misspelt}`)
  }
  if (contract !== HANDLER_CONTRACT) {
    const fix =
      contract > HANDLER_CONTRACT
        ? 'install a newer akri.js'
        : 'install a newer version of the package'
    return refuse(
      `it is made for contract ${JSON.stringify(contract)}, and this program has ` +
        `${HANDLER_CONTRACT}; ${fix}`,
    )
  }
  const handlers = fieldOf(akri, 'handlers')
  const name =
    Array.isArray(handlers) && handlers.length === 1 ? fieldOf(handlers[0], 'name') : undefined
  if (typeof name !== 'string')
    return refuse(`akri.handlers in ${file} must name one handler: [{ "name": "…" }]`)
  const version = fieldOf(manifest, 'version')
  const main =
    mainModule(manifest, directory) ??
    refuse(
      `"exports" or "main" in ${file} names no module that is there; has the package been built?`,
    )
  return {
    name,
    package: specifier,
    version: typeof version === 'string' ? version : 'unknown',
    module: main,
    load: () => loadFromPackage(specifier, name, main),
  }
}

async function findHandlerModule(
  module: string,
  readName: ReadHandlerName,
): Promise<HandlerPackage> {
  return {
    name: await readName(module),
    package: module,
    version: 'unknown',
    module,
    load: () => importHandler(pathToFileURL(module).href, module),
  }
}

async function importedName(module: string): Promise<string> {
  const loading = importHandler(pathToFileURL(module).href, module)
  const handler = await withTimeLimit(MODULE_LOAD_MS, new AbortController().signal, (limited) =>
    untilAborted(loading, limited),
  )
  if (handler !== undefined) return handler.name
  throw new HandlerPackageError(
    `${module} has not been loaded after ${MODULE_LOAD_MS / 1000} s; does it await at its top ` +
      'level what never comes?',
  )
}

/** The names that npm gives to packages: their letters are lower-case. */
const PACKAGE_NAME = /^(@[a-z\d~-][a-z\d._~-]*\/)?[a-z\d~-][a-z\d._~-]*$/

/** Why a specifier leads to no package. */
function absence(specifier: string, from: string): string {
  if (!isPath(specifier)) return absenceOfName(specifier, from)
  const target = path.resolve(from, specifier)
  const fix = 'give the file of a module, or the directory of a package'
  return isDirectory(target)
    ? `there is no package.json in ${target}; ${fix}`
    : `there is no ${target}; ${fix}`
}

function absenceOfName(name: string, from: string): string {
  // Programs read paths from their working directory.
  if (isDirectory(path.resolve(name))) return `no such package is installed; write ./${name}`
  if (isModuleName(name)) return 'there is neither a file nor an installed package of this name'
  if (!PACKAGE_NAME.test(name))
    return 'there is no such directory, and npm has no package of such a name'
  return `it is not installed where ${from} can find it; run npm install ${name}`
}

function isDirectory(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/** Finds several packages. An unusable package does not affect the others. */
export async function findHandlerPackages(
  specifiers: readonly string[],
  from: string,
  onUnusable: (error: unknown) => void,
  readName?: ReadHandlerName,
  find: typeof findHandlerPackage = findHandlerPackage,
): Promise<HandlerPackage[]> {
  const found: HandlerPackage[] = []
  for (const specifier of specifiers) {
    try {
      found.push(await find(specifier, from, readName))
    } catch (error) {
      onUnusable(error)
    }
  }
  return found
}

async function loadFromPackage(
  specifier: string,
  name: string,
  module: string,
): Promise<DiscoveryHandler> {
  const subject = `handler package ${specifier}`
  const handler = await importHandler(pathToFileURL(module).href, subject)
  if (handler.name === name) return handler
  throw new HandlerPackageError(
    `${subject} exports a handler ${handler.name}, but its package.json names ${name}`,
  )
}

/** The file of a module that a specifier names. */
function moduleFile(specifier: string, from: string): string | undefined {
  if (!isPath(specifier)) return undefined
  const file = path.resolve(from, specifier)
  return statSync(file, { throwIfNoEntry: false })?.isFile() ? file : undefined
}

/** Whether a specifier is a path, and not the name of a package. */
export function isPath(specifier: string): boolean {
  return /^(\.{0,2}\/|\.{1,2}$)/.test(specifier)
}

/** The directory of a package, resolved as for a module in `from`. */
export function packageDirectory(specifier: string, from: string): string | undefined {
  if (isPath(specifier)) {
    const directory = path.resolve(from, specifier)
    return existsSync(path.join(directory, 'package.json')) ? directory : undefined
  }
  // "exports" can hide <name>/package.json from a resolver.
  for (const modules of createRequire(path.join(from, 'x.js')).resolve.paths(specifier) ?? []) {
    if (existsSync(path.join(modules, specifier, 'package.json')))
      return path.join(modules, specifier)
  }
  return undefined
}

/**
 * The main module of a package, as an import in `from` finds it. createRequire() finds no module
 * that a package exports to `import` only.
 * @returns undefined if there is no such package, or it has no such module
 */
export async function packageModule(name: string, from: string): Promise<string | undefined> {
  const directory = packageDirectory(name, from)
  if (directory === undefined) return undefined
  const manifest = await readFile(path.join(directory, 'package.json'), 'utf8')
    .then(parseManifest)
    .catch(() => undefined)
  return mainModule(manifest, directory)
}

/** An editor can begin a file with a byte order mark, which Node.js and npm skip. */
function parseManifest(text: string): unknown {
  return JSON.parse(text.replace(/^\ufeff/, ''))
}

/** The main module of the package: from "exports", as Node.js reads it, else from "main". */
function mainModule(manifest: unknown, directory: string): string | undefined {
  const exports = fieldOf(manifest, 'exports') ?? undefined
  const dot = fieldOf(exports, '.') ?? exports
  const target = dot === undefined ? (fieldOf(manifest, 'main') ?? 'index.js') : importTarget(dot)
  if (typeof target !== 'string') return undefined
  // "main" can lack the extension, or name a directory.
  const targets =
    dot === undefined ? [target, `${target}.js`, `${target}/index.js`, 'index.js'] : [target]
  return targets
    .map((each) => path.resolve(directory, each))
    .find(
      (file) =>
        // Node.js also refuses a path outside of the package.
        file.startsWith(`${path.resolve(directory)}${path.sep}`) &&
        statSync(file, { throwIfNoEntry: false })?.isFile() === true,
    )
}

/** The conditions of an import. */
const CONDITIONS = ['import', 'node', 'node-addons', 'module-sync', 'default']

/**
 * The target of the first condition that applies to an import: PACKAGE_TARGET_RESOLVE of Node.js.
 * Null excludes the module; undefined leaves it to the next condition.
 */
function importTarget(target: unknown): unknown {
  if (Array.isArray(target)) {
    const found = target.map(importTarget).filter((each) => each !== undefined)
    // The first one that can be a path: a list has targets for other programs too.
    return found.find((each) => typeof each === 'string' && each.startsWith('./')) ?? found.at(-1)
  }
  if (!isRecord(target)) return target
  for (const [condition, inner] of Object.entries(target)) {
    const found = CONDITIONS.includes(condition) ? importTarget(inner) : undefined
    if (found !== undefined) return found
  }
  return undefined
}
