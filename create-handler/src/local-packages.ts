import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { fieldOf, isRecord, messageOf } from '@akrijs/runtime'
import { ProjectError } from './errors.js'
import { readPacked } from './tarball.js'

const run = promisify(execFile)

/** A package that a project takes from a file, not from a registry. */
export interface LocalPackage {
  readonly name: string
  /** The name of its tarball. */
  readonly file: string
  readonly bytes: Uint8Array
  /** Its entry in `package-lock.json`, without the place of the tarball. */
  readonly entry: Readonly<Record<string, unknown>>
}

/** The folder of the tarballs in a project. */
export const VENDOR = 'vendor'

const SCOPE = '@akrijs/'
/** Of a clone: what projects depend on. Packages that these need come too. */
const NEEDED = ['@akrijs/sdk', '@akrijs/cli']
/** The members of a package.json that `package-lock.json` repeats. */
const LOCKED = ['version', 'license', 'bin', 'dependencies', 'engines'] as const

/** The clone of akri.js that contains this program; undefined if npm has installed it. */
export function cloneAround(directory: string): string | undefined {
  const root = path.dirname(directory)
  return existsSync(path.join(root, 'sdk/tsup.config.ts')) ? root : undefined
}

/**
 * Packs the packages of a clone into a directory.
 *
 * @throws ProjectError if the clone is not built
 */
export async function packClone(root: string, into: string, signal: AbortSignal): Promise<void> {
  const cli: unknown = JSON.parse(await readFile(path.join(root, 'cli/package.json'), 'utf8'))
  const names = [...NEEDED, ...namesIn(cli, 'dependencies')].filter((name) =>
    name.startsWith(SCOPE),
  )
  for (const file of ['sdk/dist/index.d.ts', 'cli/dist/akri.js'])
    if (!existsSync(path.join(root, file)))
      throw new ProjectError(`the packages in ${root} are not built; run npm run build there`)
  const args = [...new Set(names)].flatMap((name) => ['--workspace', name])
  try {
    await run('npm', ['pack', '--silent', '--pack-destination', into, ...args], {
      cwd: root,
      signal,
    })
  } catch (error) {
    if (signal.aborted) throw error
    throw new ProjectError(`npm cannot pack the packages in ${root}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

/**
 * Reads the packages that a project needs from tarballs: those of Akri, and all others that are
 * there.
 *
 * @param manifest the `package.json` of the project
 * @throws ProjectError if a package of Akri is missing, or if a tarball is unusable
 */
export async function readLocalPackages(
  directory: string,
  manifest: unknown,
): Promise<readonly LocalPackage[]> {
  const found = new Map<string, LocalPackage>()
  for (const file of await tarballsIn(directory)) {
    const local = await readLocalPackage(directory, file)
    const other = found.get(local.name)
    if (other !== undefined)
      throw new ProjectError(`${directory} has ${local.name} twice: ${other.file} and ${file}`)
    found.set(local.name, local)
  }
  const needed = new Set([
    ...namesIn(manifest, 'dependencies'),
    ...namesIn(manifest, 'devDependencies'),
  ])
  // The loop also visits the names that it adds.
  for (const name of needed)
    for (const next of namesIn(found.get(name)?.entry, 'dependencies')) needed.add(next)
  const missing = [...needed].filter((name) => name.startsWith(SCOPE) && !found.has(name))
  if (missing.length > 0)
    throw new ProjectError(`${directory} has no tarball of ${missing.join(', ')}; run npm pack`)
  return [...found.values()].filter(({ name }) => needed.has(name))
}

/**
 * A `package-lock.json` that names the tarballs. `package.json` stays as for a registry, so that
 * the project can be published. npm adds all other packages when it installs.
 *
 * @param manifest the `package.json` of the project
 */
export function lockOf(manifest: unknown, packages: readonly LocalPackage[]): string {
  const [name, version] = [fieldOf(manifest, 'name'), fieldOf(manifest, 'version')]
  const project = {
    name,
    version,
    dependencies: fieldOf(manifest, 'dependencies'),
    devDependencies: fieldOf(manifest, 'devDependencies'),
  }
  const entries = packages.map(({ name, file, bytes, entry }) => [
    `node_modules/${name}`,
    {
      ...entry,
      resolved: `file:${VENDOR}/${file}`,
      integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}`,
    },
  ])
  const lock = {
    name,
    version,
    lockfileVersion: 3,
    requires: true,
    packages: { '': project, ...Object.fromEntries(entries) },
  }
  return `${JSON.stringify(lock, undefined, 2)}\n`
}

async function tarballsIn(directory: string): Promise<readonly string[]> {
  try {
    return (await readdir(directory)).filter((file) => file.endsWith('.tgz')).sort()
  } catch (error) {
    throw new ProjectError(`${directory} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

async function readLocalPackage(directory: string, file: string): Promise<LocalPackage> {
  const full = path.join(directory, file)
  try {
    const bytes = await readFile(full)
    const manifest: unknown = JSON.parse(readPacked(bytes, 'package.json') ?? 'null')
    const name = fieldOf(manifest, 'name')
    if (typeof name !== 'string') throw new TypeError('it has no package.json with a name')
    const entry = Object.fromEntries(
      LOCKED.flatMap((field) => {
        const value = fieldOf(manifest, field)
        return value === undefined ? [] : [[field, value]]
      }),
    )
    return { name, file, bytes, entry }
  } catch (error) {
    throw new ProjectError(`${full} is no tarball of a package: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

function namesIn(manifest: unknown, field: string): readonly string[] {
  const value = fieldOf(manifest, field)
  return isRecord(value) ? Object.keys(value) : []
}
