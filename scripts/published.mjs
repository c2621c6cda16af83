// What npm publishes: a directory for each package that is not private. Its package.json differs
// from that of the sources: no sources, no scripts, and the address of the repository.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { reach, root, workspaces } from './workspaces.mjs'

export class PublishError extends Error {}

/** The condition of exports that leads to the sources: it exists only in this repository. */
const SOURCES = 'akri-source'

/** @returns {import('./workspaces.mjs').Workspace[]} each after those that it depends on */
export function publishedPackages() {
  const all = workspaces()
  const published = all.filter(({ manifest }) => manifest.private !== true)
  const hidden = reach(all, published, 'imports').find(
    (workspace) => !published.includes(workspace),
  )
  if (hidden !== undefined)
    throw new PublishError(`${hidden.name} is private, and a published package depends on it`)
  return published
}

/**
 * @param {Record<string, any>} manifest of the sources
 * @param {string} folder of the package
 * @param {string} source the repository, such as https://github.com/OWNER/REPOSITORY
 */
export function publishedManifest(manifest, folder, source) {
  checkSource(source)
  const { devDependencies: _development, scripts: _scripts, exports, ...rest } = manifest
  return {
    ...rest,
    ...(exports === undefined ? {} : withoutSources(exports)),
    repository: { type: 'git', url: `git+${source}.git`, directory: folder },
    homepage: `${source}/tree/v${manifest.version}/${folder}#readme`,
    bugs: `${source}/issues`,
    publishConfig: { access: 'public', provenance: true },
  }
}

/** @throws {PublishError} if this is not the address of a repository */
export function checkSource(source) {
  if (!/^https:\/\/[\w.-]+(\/[\w.-]+)+$/.test(source) || /\.git$/.test(source))
    throw new PublishError(
      `${source} is not an address such as https://github.com/OWNER/REPOSITORY`,
    )
}

/** The address of a file of the repository, as it is in the version. */
export function releasedFile(file, { source, version }) {
  return `${source}/blob/v${version}/${file}`
}

/**
 * The entries of a package, also for TypeScript with `moduleResolution: node10`. An entry that has
 * nothing but sources is for this repository only.
 */
function withoutSources(exports) {
  const entries = Object.entries(exports)
    .map(([name, { [SOURCES]: _, ...targets }]) => [name, targets])
    .filter(([, targets]) => Object.keys(targets).length > 0)
  const { '.': main, ...others } = Object.fromEntries(entries)
  const typesVersions = Object.fromEntries(
    Object.entries(others).map(([name, { types }]) => [name.replace('./', ''), [types]]),
  )
  return {
    ...(main === undefined ? {} : { main: main.default, types: main.types }),
    exports: Object.fromEntries(entries),
    ...(Object.keys(others).length === 0 ? {} : { typesVersions: { '*': typesVersions } }),
  }
}

/**
 * A page of a package for npm. A link to a file that the package lacks leads to the repository.
 * @param {string} text in Markdown
 * @param {{ folder: string, files: readonly string[], source: string, version: string }} published
 */
export function publishedPage(text, { folder, files, source, version }) {
  const withLinks = (part) =>
    part.replace(/(?<=\]\()(?![a-z][a-z+.-]*:|[#/])([^)\s#]+)/gi, (link) => {
      const isPublished = files.includes(path.posix.normalize(link))
      return isPublished ? link : releasedFile(path.posix.join(folder, link), { source, version })
    })
  // Every second part is a block of code.
  const parts = text.split(/(^ *```.*?^ *```$)/ms)
  return parts.map((part, index) => (index % 2 === 0 ? withLinks(part) : part)).join('')
}

/**
 * Writes the directories.
 * @param {string} directory
 * @param {string} source
 * @param {readonly import('./workspaces.mjs').Workspace[]} [packages]
 * @returns {{ name: string, version: string, directory: string }[]} each after those that it
 *   depends on
 */
export function stagePackages(directory, source, packages = publishedPackages()) {
  return packages.map(({ name, folder, manifest }) => {
    const published = publishedManifest(manifest, folder, source)
    const staged = path.join(directory, folder)
    const files = filesOf(folder)
    const missing = targetsOf(published).find((target) => !files.includes(target))
    if (missing !== undefined)
      throw new PublishError(`${folder} has no ${missing}: run npm run build`)
    for (const file of files) cpSync(path.join(root, folder, file), path.join(staged, file))
    mkdirSync(staged, { recursive: true })
    const { version } = manifest
    for (const file of files.filter((name) => /^[^/]+\.md$/.test(name))) {
      const page = readFileSync(path.join(root, folder, file), 'utf8')
      const text = publishedPage(page, { folder, files, source, version })
      writeFileSync(path.join(staged, file), text)
    }
    writeFileSync(path.join(staged, 'package.json'), `${JSON.stringify(published, undefined, 2)}\n`)
    return { name, version, directory: staged }
  })
}

/** What npm takes from a folder. */
function filesOf(folder) {
  const [{ files }] = JSON.parse(
    execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: path.join(root, folder),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  )
  return files.map((file) => file.path)
}

/** The files that a package.json names. */
function targetsOf({ exports = {}, bin = {} }) {
  return [...Object.values(exports).flatMap(Object.values), ...Object.values(bin)].map((target) =>
    target.replace('./', ''),
  )
}
