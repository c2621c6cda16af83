// Usage: node scripts/opcua-client-tree.mjs DIRECTORY [TARGET]. Makes the file tree of an optional
// layer of an image in the directory: in /app/node_modules the client of node-opcua, which
// `serverDetails` of the OPC UA handler needs, with all packages that it needs, and in /app the
// bill of materials of the image with these packages. TARGET is a name of WITH_OPCUA_CLIENT in
// image-contents.mjs, by default with-opcua-client. Versions and digests are those of
// package-lock.json.
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { imageContents, WITH_OPCUA_CLIENT } from './image-contents.mjs'
import { sealTree } from './seal-tree.mjs'
import { imageBill } from './shipped/sbom.mjs'
import { BILL } from './shipped.mjs'
import { root } from './workspaces.mjs'

const CLIENT = 'node_modules/node-opcua-client'
/** What runs. The packages also hold sources, declarations and source maps. */
const CODE = /\.([cm]?js|json|node)$/
const LICENSE = /^(un)?licen[cs]e|^copying|^notice/i
const README = /^readme/i
/** Packages whose package.json names no licence; their README does. */
const LICENSES = { precond: 'MIT' }

const [out, target = 'with-opcua-client', ...more] = process.argv.slice(2)
if (out === undefined || more.length > 0 || !Object.hasOwn(WITH_OPCUA_CLIENT, target)) {
  process.stderr.write(
    'usage: node scripts/opcua-client-tree.mjs DIRECTORY ' +
      `[${Object.keys(WITH_OPCUA_CLIENT).join(' | ')}]\n`,
  )
  process.exit(1)
}
const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'))
const app = path.join(path.resolve(out), 'app')
rmSync(app, { recursive: true, force: true })
const needs = needsOf(CLIENT)
for (const directory of needs.keys()) copyPackage(directory)
const { name: image, below } = WITH_OPCUA_CLIENT[target]
const { programs, packages: own } = imageContents(below)
const bill = imageBill(image, programs, own, [...needs].map(partOf))
writeFileSync(path.join(app, BILL), `${JSON.stringify(bill, undefined, 2)}\n`)
process.stdout.write(sealTree(app))

/**
 * A package and all that it needs, by directory as in package-lock.json.
 * @returns {Map<string, string[]>} the directories of what each of them imports
 */
function needsOf(first) {
  const found = new Map([[first, []]])
  // The loop also visits the packages that it adds.
  for (const [directory, imported] of found)
    for (const name of Object.keys(packages[directory].dependencies ?? {})) {
      const other = resolve(directory, name)
      imported.push(other)
      if (!found.has(other)) found.set(other, [])
    }
  return found
}

/** As Node.js looks for a package: beside the one that imports it, then further up. */
function resolve(from, name) {
  for (
    let directory = from;
    ;
    directory = directory.replace(/\/?node_modules\/(@[^/]+\/)?[^/]+$/, '')
  ) {
    const found = path.posix.join(directory, 'node_modules', name)
    if (packages[found] !== undefined) return found
    if (directory === '') throw new TypeError(`package-lock.json lacks ${name} of ${from}`)
  }
}

function copyPackage(directory) {
  const from = path.join(root, directory)
  // A package without a file for its licence has the licence in its README.
  const hasLicense = readdirSync(from).some((name) => LICENSE.test(name))
  const filter = (file) => {
    // Packages inside of this package are copied by themselves, if they are needed.
    if (path.relative(from, file).split(path.sep).includes('node_modules')) return false
    if (statSync(file).isDirectory() || CODE.test(file)) return true
    return (hasLicense ? LICENSE : README).test(path.basename(file))
  }
  cpSync(from, path.join(app, directory), { recursive: true, filter })
}

/** @returns {import('./shipped/parts.mjs').Part} */
function partOf([directory, imported]) {
  const { version, license, integrity } = packages[directory]
  return {
    ref: refOf(directory),
    name: nameOf(directory),
    version,
    license: license ?? LICENSES[nameOf(directory)],
    integrity,
    texts: [],
    needs: imported.map(refOf),
  }
}

function refOf(directory) {
  return `pkg:npm/${nameOf(directory).replace('@', '%40')}@${packages[directory].version}`
}

function nameOf(directory) {
  return directory.replace(/^.*node_modules\//, '')
}
