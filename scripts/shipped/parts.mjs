// What of others is in our packages and in the image, from what esbuild says about the bundles.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { reach, readMetafile, root, workspaces } from '../workspaces.mjs'

/**
 * @typedef {object} Part something of others that is in a bundle
 * @property {string} ref its package URL, https://github.com/package-url/purl-spec
 * @property {string} name
 * @property {string} [version]
 * @property {string} license an SPDX expression
 * @property {readonly string[]} texts the texts of its licence and its notices
 * @property {string} [url]
 * @property {string} [integrity] the digest of its npm tarball, as in package-lock.json
 * @property {readonly string[]} needs the parts that it imports
 */

/**
 * Licences that we may ship. Their texts are all that they ask for. Another licence needs a
 * decision.
 */
const ALLOWED = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'Unlicense']

/** Interfaces that were written down from the sources of others, by our files of them. */
const INTERFACES = [
  {
    files: /^proto\/src\/generated\/discovery\.ts$/,
    name: 'Akri, discovery API',
    ref: 'pkg:github/project-akri/akri',
    url: 'https://github.com/project-akri/akri',
    copyright: 'Copyright 2021 Akri Authors',
  },
  {
    files: /^proto\/src\/generated\/(deviceplugin|podresources)\.ts$/,
    name: 'Kubernetes, device plugin and podresources APIs',
    ref: 'pkg:golang/k8s.io/kubelet',
    url: 'https://github.com/kubernetes/kubelet',
    copyright: 'Copyright The Kubernetes Authors',
  },
  {
    files: /^proto\/src\/generated\/runtime\.ts$/,
    name: 'Kubernetes, container runtime interface',
    ref: 'pkg:golang/k8s.io/cri-api',
    url: 'https://github.com/kubernetes/cri-api',
    copyright: 'Copyright The Kubernetes Authors',
  },
]
const GENERATED = /^proto\/src\/generated\//

/** Packages whose declarations contain the declarations that their sources import. */
const WITH_DECLARATIONS = ['sdk']

/** The package whose headers the addon of a package is compiled with. */
const ADDON_HEADERS = 'node_modules/node-api-headers'

/** Names of files with a licence or a notice. */
export const LICENSE_FILE = /^(un)?licen[cs]e|^copying|^notice/i

export class ShippedError extends Error {}

/**
 * The parts of a built package.
 * @param {string} folder of the package
 * @param {readonly string[]} [files] of its dist: only what is in these. Without them, all
 * @param {import('esbuild').Metafile} [metafile] of its build
 * @returns {Part[]} sorted by name
 */
export function partsOf(folder, files, metafile = readMetafile(folder)) {
  const { inputs, outputs } = metafile
  const fromRoot = (input) => path.relative(root, path.resolve(root, folder, input))
  const bundled = new Set()
  for (const [output, { inputs: parts }] of Object.entries(outputs)) {
    if (files !== undefined && !files.includes(output)) continue
    for (const [input, { bytesInOutput }] of Object.entries(parts))
      if (bytesInOutput > 0) bundled.add(input)
  }
  const parts = new Map([...bundled].flatMap((input) => entryOf(partOfFile(fromRoot(input)))))
  if (WITH_DECLARATIONS.includes(folder))
    for (const directory of importedBySources(folder)) parts.set(...entryOf(npmPart(directory))[0])
  if (addonsOf(folder).length > 0) parts.set(...entryOf(npmPart(ADDON_HEADERS))[0])
  const needs = new Map([...parts.keys()].map((ref) => [ref, new Set()]))
  for (const input of bundled) {
    const from = partOfFile(fromRoot(input))
    if (from === undefined) continue
    for (const { path: imported, external } of inputs[input].imports) {
      const to = external || !bundled.has(imported) ? undefined : partOfFile(fromRoot(imported))
      if (to !== undefined && to.ref !== from.ref) needs.get(from.ref).add(to.ref)
    }
  }
  return sortedParts(
    [...parts.values()].map((part) => ({ ...part, needs: [...needs.get(part.ref)].sort() })),
  )
}

function entryOf(part) {
  return part === undefined ? [] : [[part.ref, part]]
}

/** Each part once, with all that it needs in any of the bundles. */
export function mergedParts(lists) {
  const merged = new Map()
  for (const part of lists.flat()) {
    const needs = new Set([...(merged.get(part.ref)?.needs ?? []), ...part.needs])
    merged.set(part.ref, { ...part, needs: [...needs].sort() })
  }
  return sortedParts([...merged.values()])
}

/**
 * The native addons of a package.
 * @returns {{ file: string, sha256: string }[]} paths relative to the folder
 */
export function addonsOf(folder) {
  const prebuilds = path.join(root, folder, 'prebuilds')
  if (!existsSync(prebuilds)) return []
  const { binaries } = JSON.parse(readFileSync(path.join(prebuilds, 'MANIFEST.json'), 'utf8'))
  return readdirSync(prebuilds, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.node'))
    .map((entry) => {
      const target = path.basename(entry.parentPath)
      const file = path.relative(path.join(root, folder), path.join(entry.parentPath, entry.name))
      if (binaries[target] === undefined)
        throw new ShippedError(
          `${folder}/${file} is not in MANIFEST.json: run node scripts/build-addon.mjs`,
        )
      return { file, sha256: binaries[target].sha256 }
    })
    .sort((a, b) => (a.file < b.file ? -1 : 1))
}

/** @returns {Part | undefined} undefined for a file of ours */
function partOfFile(file) {
  const directory = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]
  if (directory !== undefined) return npmPart(directory)
  const found = INTERFACES.find(({ files }) => files.test(file))
  if (found === undefined && GENERATED.test(file))
    throw new ShippedError(
      `${file}: name the source of this interface in scripts/shipped/parts.mjs`,
    )
  if (found === undefined) return undefined
  const { files: _files, copyright, ...part } = found
  return { ...part, license: 'Apache-2.0', texts: [copyright, ownLicense()], needs: [] }
}

const npmParts = new Map()

/** @param {string} directory such as `node_modules/pino` */
function npmPart(directory) {
  const part = npmParts.get(directory) ?? readNpmPart(directory)
  npmParts.set(directory, part)
  return part
}

/** @returns {Part} @throws ShippedError if its licence is unknown, not allowed, or has no text */
export function readNpmPart(directory) {
  const { name, version, ...manifest } = readJson(directory, 'package.json')
  const what = `${name} ${version}`
  const license = String(manifest.license ?? '').replace(/^\((.*)\)$/, '$1')
  const ids = license.split(/[\s()]+/).filter((word) => !['', 'AND', 'OR'].includes(word))
  if (ids.length === 0) throw new ShippedError(`${what} names no licence in its package.json`)
  const other = ids.find((id) => !ALLOWED.includes(id))
  if (other !== undefined)
    throw new ShippedError(
      `${what} has the licence ${other}: use another package, or decide about it in ` +
        'scripts/shipped/parts.mjs',
    )
  const repository = manifest.repository?.url ?? manifest.repository ?? manifest.homepage
  const url = webAddress(repository)
  return {
    ref: npmRef(name, version),
    name,
    version,
    license,
    texts: licenseTexts(directory, name, what),
    ...(url === undefined ? {} : { url }),
    ...integrityOf(directory),
    needs: [],
  }
}

export function npmRef(name, version) {
  return `pkg:npm/${name.replace('@', '%40')}${version === undefined ? '' : `@${version}`}`
}

/**
 * A package of package-lock.json. One for another platform is not installed: then the text of its
 * licence is in scripts/shipped/licenses.
 * @returns {Part} @throws ShippedError if its licence has no text
 */
export function lockedPart(name) {
  const directory = `node_modules/${name}`
  const { integrity } = integrityOf(directory)
  const { version, license } = lock[directory]
  const texts = licenseTexts(directory, name, `${name} ${version}`)
  return { ref: npmRef(name, version), name, version, license, texts, integrity, needs: [] }
}

/**
 * What is compiled into the binaries of the npm package usb: their own packages do not say it. The
 * list is what `cargo tree --target x86_64-unknown-linux-gnu -e normal,no-proc-macro` tells in the
 * tag of github.com/node-usb/node-usb-rs, and what the binary names of the library of Rust.
 * @returns {Part[]} @throws ShippedError if the list is that of another version
 */
export function usbCrates() {
  const { usb, crates } = readJson('scripts/shipped', 'usb-crates.json')
  const { version } = lockedPart('usb')
  if (usb !== version)
    throw new ShippedError(`usb ${version}: write scripts/shipped/usb-crates.json for it`)
  return crates.map(({ name, version, license, url, ref = `pkg:cargo/${name}@${version}` }) => {
    // Of several licences, Apache-2.0 is chosen.
    const chosen = license.split(' OR ').includes('Apache-2.0') ? [ownLicense()] : []
    const own = path.join(import.meta.dirname, 'licenses/crates', `${name}.txt`)
    const texts = [...chosen, ...(existsSync(own) ? [normalized(readFileSync(own, 'utf8'))] : [])]
    if (texts.length === 0)
      throw new ShippedError(
        `${name} ${version} has no text of its licence: write it into ${path.relative(root, own)}`,
      )
    return { ref, name, version, license, texts, url, needs: [] }
  })
}

/** A package may lack a file with its licence: then the text is in scripts/shipped/licenses. */
function licenseTexts(directory, name, what) {
  const full = path.resolve(root, directory)
  const files = (existsSync(full) ? readdirSync(full) : [])
    .filter((file) => LICENSE_FILE.test(file))
    .sort()
    .map((file) => path.join(full, file))
  const own = path.join(import.meta.dirname, 'licenses', `${name.replace('/', '+')}.txt`)
  if (files.length === 0 && existsSync(own)) files.push(own)
  if (files.length === 0)
    throw new ShippedError(
      `${what} has no file with its licence: write the text into ${path.relative(root, own)}`,
    )
  return files.map((file) => normalized(readFileSync(file, 'utf8')))
}

/** The packages of others that the sources of a package, and of ours that it needs, import. */
function importedBySources(folder) {
  const all = workspaces()
  const names = new Set(all.map(({ name }) => name))
  const own = reach(
    all,
    all.filter((workspace) => workspace.folder === folder),
    'needs',
  )
  const found = new Set()
  for (const workspace of own) {
    for (const entry of readdirSync(path.join(root, workspace.folder, 'src'), {
      recursive: true,
    })) {
      if (!entry.endsWith('.ts') || /\.test\.ts$|(^|\/)(generated|testing)\//.test(entry)) continue
      const text = readFileSync(path.join(root, workspace.folder, 'src', entry), 'utf8')
      for (const [, specifier] of text.matchAll(/ from '([^'.][^']*)'/g)) {
        const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier
        if (!specifier.startsWith('node:') && !names.has(name)) found.add(`node_modules/${name}`)
      }
    }
  }
  return found
}

let lock
function integrityOf(directory) {
  lock ??= readJson('.', 'package-lock.json').packages
  const integrity = lock[directory]?.integrity
  return integrity === undefined ? {} : { integrity }
}

export function ownLicense() {
  return normalized(readFileSync(path.join(root, 'LICENSE'), 'utf8'))
}

function normalized(text) {
  const lines = text.replace(/^\ufeff/, '').split(/\r?\n/)
  return lines
    .map((line) => line.trimEnd())
    .join('\n')
    .replace(/^\n+|\n+$/g, '')
}

/** `git+https://github.com/a/b.git` and `github:a/b` become an address for people. */
function webAddress(repository) {
  if (typeof repository !== 'string') return undefined
  const short = /^(?:github:)?([\w.-]+\/[\w.-]+)$/.exec(repository)?.[1]
  if (short !== undefined) return `https://github.com/${short}`
  const address = repository
    .replace(/^git\+/, '')
    .replace(/^(git|ssh):\/\/(git@)?/, 'https://')
    .replace(/^git@([^:]+):/, 'https://$1/')
    .replace(/\.git$/, '')
  return URL.canParse(address) ? address : undefined
}

function sortedParts(parts) {
  const key = ({ name, version = '' }) => `${name} ${version}`
  return parts.sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

function readJson(directory, file) {
  return JSON.parse(readFileSync(path.resolve(root, directory, file), 'utf8'))
}
