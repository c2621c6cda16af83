import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fieldOf, isRecord, valueAt } from '@akrijs/runtime'
import type { DiscoveryHandler } from '@akrijs/sdk/handler'
import { findHandlerPackage, packageDirectory } from '@akrijs/sdk/handler'

/** The parts of a package.json that name other packages. */
const DEPENDENCIES = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies']

/**
 * The handlers of a project, by their names: that of its package, and those of the packages that
 * its package.json names. No code of a handler runs until the handler is loaded.
 * @param directory of the project. Without a package.json there, there are none
 */
export async function projectHandlers(
  directory: string,
): Promise<ReadonlyMap<string, () => Promise<DiscoveryHandler>>> {
  const project = await readManifest(directory)
  const dependencies = DEPENDENCIES.flatMap((part) => {
    const named = fieldOf(project, part)
    return isRecord(named) ? Object.keys(named) : []
  })
  const installed = dependencies.flatMap((name) => packageDirectory(name, directory) ?? [])
  const handlers = new Map<string, () => Promise<DiscoveryHandler>>()
  for (const found of [directory, ...new Set(installed)]) {
    const manifest = found === directory ? project : await readManifest(found)
    const name = valueAt(manifest, 'akri', 'handlers', 0, 'name')
    // A package that cannot be used is a problem of the Configurations that need it.
    if (typeof name === 'string' && !handlers.has(name))
      handlers.set(name, async () => (await findHandlerPackage(found, found)).load())
  }
  return handlers
}

/** Undefined if there is none that can be read. */
async function readManifest(directory: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path.join(directory, 'package.json'), 'utf8'))
  } catch {
    return undefined
  }
}
