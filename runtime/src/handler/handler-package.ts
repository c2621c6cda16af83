import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { messageOf } from '../errors.js'
import { fieldOf, isRecord } from '../json.js'
import { HandlerPackageError } from './errors.js'
import { type DiscoveryHandler, HANDLER_CONTRACT, isDiscoveryHandler } from './handler.js'

/** An npm package with a handler, read from its package.json alone. */
export interface HandlerPackage {
  /** The handler's name, as in Configurations. */
  readonly name: string
  readonly package: string
  readonly version: string
  /** The module that exports the handler as its default. */
  readonly module: string
  /** Imports the handler. */
  load(): Promise<DiscoveryHandler>
}

/**
 * Finds a handler's package and checks its package.json: `"akri": { "contract": 1, "handlers": [{
 * "name": "udev" }] }`. Does not import the package.
 *
 * @param specifier the name of an npm package, or the path of one (`./sensor`, `/opt/sensor`)
 * @param from a directory: packages are resolved as for a module in this directory
 * @throws HandlerPackageError with the package and the fix
 */
export async function findHandlerPackage(specifier: string, from: string): Promise<HandlerPackage> {
  const directory = packageDirectory(specifier, from)
  const refuse = (what: string): never => {
    throw new HandlerPackageError(`handler package ${specifier}: ${what}`)
  }
  if (directory === undefined)
    return refuse(
      isPath(specifier)
        ? `there is no package.json in ${path.resolve(from, specifier)}; give the directory ` +
            'of the package'
        : `it is not installed where ${from} can find it; run npm install ${specifier}`,
    )
  const file = path.join(directory, 'package.json')
  const manifest = await readFile(file, 'utf8')
    .then((text): unknown => JSON.parse(text))
    .catch((error: unknown) => refuse(`${file} cannot be read: ${messageOf(error)}`))
  const akri = fieldOf(manifest, 'akri')
  if (akri === undefined)
    return refuse(
      `${file} has no field "akri"; a handler's package has "akri": { "contract": ` +
        `${HANDLER_CONTRACT}, "handlers": [{ "name": "…" }] }`,
    )
  const contract = fieldOf(akri, 'contract')
  if (contract !== HANDLER_CONTRACT) {
    const fix =
      typeof contract === 'number' && contract > HANDLER_CONTRACT
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
  const module =
    mainModule(manifest, directory) ??
    refuse(
      `"exports" or "main" in ${file} names no module that is there; has the package been built?`,
    )
  return {
    name,
    package: specifier,
    version: typeof version === 'string' ? version : 'unknown',
    module,
    load: () => load(specifier, name, module),
  }
}

/** Finds several packages. An unusable package does not affect the others. */
export async function findHandlerPackages(
  specifiers: readonly string[],
  from: string,
  onUnusable: (error: unknown) => void,
): Promise<HandlerPackage[]> {
  const found: HandlerPackage[] = []
  for (const specifier of specifiers) {
    try {
      found.push(await findHandlerPackage(specifier, from))
    } catch (error) {
      onUnusable(error)
    }
  }
  return found
}

async function load(specifier: string, name: string, module: string): Promise<DiscoveryHandler> {
  const refusal = (what: string, options?: ErrorOptions) =>
    new HandlerPackageError(`handler package ${specifier}${what}`, options)
  let loaded: unknown
  try {
    loaded = await import(pathToFileURL(module).href)
  } catch (error) {
    throw refusal(` cannot be loaded: ${messageOf(error)}`, { cause: error })
  }
  const handler = fieldOf(loaded, 'default')
  if (!isDiscoveryHandler(handler))
    throw refusal(`: ${module} does not export what defineDiscoveryHandler gives as its default`)
  if (handler.contract !== HANDLER_CONTRACT)
    throw refusal(
      ` was built with contract ${handler.contract}; this program has ${HANDLER_CONTRACT}`,
    )
  if (handler.name !== name)
    throw refusal(` exports a handler ${handler.name}, but its package.json names ${name}`)
  return handler
}

/** Whether a specifier is the path of a package, not its name. */
export function isPath(specifier: string): boolean {
  return /^\.{0,2}\//.test(specifier)
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

/** The main module of the package: from "exports", as Node.js reads it, else from "main". */
function mainModule(manifest: unknown, directory: string): string | undefined {
  const exports = fieldOf(manifest, 'exports')
  const dot = fieldOf(exports, '.') ?? exports
  const target = dot === undefined ? (fieldOf(manifest, 'main') ?? 'index.js') : importTarget(dot)
  if (typeof target !== 'string') return undefined
  const file = path.resolve(directory, target)
  // Node.js also refuses a path outside of the package.
  return file.startsWith(`${path.resolve(directory)}${path.sep}`) && existsSync(file)
    ? file
    : undefined
}

/** The target of the first condition that applies to an import. */
function importTarget(target: unknown): unknown {
  if (!isRecord(target)) return target
  for (const [condition, inner] of Object.entries(target)) {
    const found = ['import', 'node', 'module-sync', 'default'].includes(condition)
      ? importTarget(inner)
      : undefined
    if (typeof found === 'string') return found
  }
  return undefined
}
