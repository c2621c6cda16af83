// The client of node-opcua, which `serverDetails` of the OPC UA handler needs, with all packages
// that it needs. Versions and digests are those of package-lock.json.
import { cpSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { LICENSE_FILE, npmRef } from '../shipped/parts.mjs'
import { root } from '../workspaces.mjs'

const CLIENT = 'node_modules/node-opcua-client'
/** What runs. The packages also hold sources, declarations and source maps. */
const CODE = /\.([cm]?js|json|node)$/
const README = /^readme/i
/** Packages whose package.json names no licence; their README does. */
const LICENSES = { precond: 'MIT' }

/**
 * Copies the packages into node_modules of a directory.
 * @returns {import('../shipped/parts.mjs').Part[]}
 */
export function copyOpcuaClient(app) {
  const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'))
  const needs = needsOf(CLIENT, packages)
  for (const directory of needs.keys()) copyPackage(directory, app)
  const refOf = (directory) => npmRef(nameOf(directory), packages[directory].version)
  return [...needs].map(([directory, imported]) => {
    const { version, license, integrity } = packages[directory]
    const name = nameOf(directory)
    return {
      ref: refOf(directory),
      name,
      version,
      license: license ?? LICENSES[name],
      integrity,
      texts: [],
      needs: imported.map(refOf),
    }
  })
}

/**
 * A package and all that it needs, by directory as in package-lock.json.
 * @returns {Map<string, string[]>} the directories of what each of them imports
 */
function needsOf(first, packages) {
  const found = new Map([[first, []]])
  // The loop also visits the packages that it adds.
  for (const [directory, imported] of found)
    for (const name of Object.keys(packages[directory].dependencies ?? {})) {
      const other = resolve(directory, name, packages)
      imported.push(other)
      if (!found.has(other)) found.set(other, [])
    }
  return found
}

/** As Node.js looks for a package: beside the one that imports it, then further up. */
function resolve(from, name, packages) {
  const found = path.posix.join(from, 'node_modules', name)
  if (packages[found] !== undefined) return found
  if (from === '') throw new TypeError(`package-lock.json lacks ${name}`)
  return resolve(from.replace(/\/?node_modules\/(@[^/]+\/)?[^/]+$/, ''), name, packages)
}

function copyPackage(directory, app) {
  const from = path.join(root, directory)
  // A package without a file for its licence has the licence in its README.
  const hasLicense = readdirSync(from).some((name) => LICENSE_FILE.test(name))
  const filter = (file) => {
    // Packages inside of this package are copied by themselves, if they are needed.
    if (path.relative(from, file).split(path.sep).includes('node_modules')) return false
    if (statSync(file).isDirectory() || CODE.test(file)) return true
    return (hasLicense ? LICENSE_FILE : README).test(path.basename(file))
  }
  cpSync(from, path.join(app, directory), { recursive: true, filter })
}

function nameOf(directory) {
  return directory.replace(/^.*node_modules\//, '')
}
