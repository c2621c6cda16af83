// The packages of this repository, from the workspaces that package.json names.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/**
 * @typedef {object} Workspace
 * @property {string} name
 * @property {string} folder relative to the root of the repository
 * @property {Record<string, any>} manifest the content of its package.json
 * @property {boolean} isBuilt whether the package has something to build
 * @property {string[]} imports names of the packages that its built files import
 * @property {string[]} needs names of the packages that its sources import
 */

/**
 * All packages; each one stands after the packages that it needs.
 * @returns {Workspace[]}
 */
export function workspaces() {
  const manifests = new Map(workspaceFolders().map((folder) => [manifestOf(folder).name, folder]))
  const internal = (dependencies = {}) =>
    Object.keys(dependencies).filter((name) => manifests.has(name))
  /** @type {Map<string, Workspace>} */
  const sorted = new Map()
  const visit = (name, from) => {
    if (from.includes(name))
      throw new TypeError(`circular packages: ${[...from, name].join(' -> ')}`)
    if (sorted.has(name)) return
    const folder = manifests.get(name)
    const manifest = manifestOf(folder)
    const imports = internal(manifest.dependencies)
    const needs = [...imports, ...internal(manifest.devDependencies)]
    for (const needed of needs) visit(needed, [...from, name])
    const isBuilt = existsSync(path.join(root, folder, 'tsup.config.ts'))
    sorted.set(name, { name, folder, manifest, isBuilt, imports, needs })
  }
  for (const name of manifests.keys()) visit(name, [])
  return [...sorted.values()]
}

/**
 * `start`, and all packages that it reaches by an arrow of this kind.
 * @param {Workspace[]} all
 * @param {Workspace[]} start
 * @param {'imports' | 'needs'} arrow
 * @returns {Workspace[]} in the order of `all`
 */
export function reach(all, start, arrow) {
  const names = new Set(start.map(({ name }) => name))
  // The loop also visits the names that it adds.
  for (const name of names)
    for (const next of all.find((workspace) => workspace.name === name)[arrow]) names.add(next)
  return all.filter(({ name }) => names.has(name))
}

/** What esbuild says about the build of a package: outside of dist, which is published. */
export function metafileOf(folder) {
  return path.join(root, '.cache/metafiles', `${folder.replace('/', '+')}.json`)
}

/** @returns {import('esbuild').Metafile} its paths are relative to the folder */
export function readMetafile(folder) {
  try {
    return JSON.parse(readFileSync(metafileOf(folder), 'utf8'))
  } catch (error) {
    throw new Error(`${folder} is not built: run node scripts/prepare.mjs`, { cause: error })
  }
}

/** @returns {Record<string, any>} the content of the folder's package.json */
export function manifestOf(folder) {
  return JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8'))
}

/** @returns {string[]} the folders that the workspaces of package.json name */
export function workspaceFolders() {
  return manifestOf('.').workspaces.flatMap((pattern) => {
    if (!pattern.endsWith('/*')) return [pattern]
    const parent = pattern.slice(0, -2)
    return readdirSync(path.join(root, parent))
      .map((name) => `${parent}/${name}`)
      .filter((folder) => existsSync(path.join(root, folder, 'package.json')))
  })
}
