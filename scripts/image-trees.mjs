// Usage: node scripts/image-trees.mjs DIRECTORY [TARGET...]. Makes the file trees of images from
// the output of `npm run build`. Without a TARGET, a name in image-contents.mjs, it makes all.
// DIRECTORY/TARGET/app has the programs and, in its node_modules, the handlers and the SDK that
// they share, and nothing else. Of a target with the client of node-opcua it has the further layer
// alone: the client, and the bill of materials of the image with it; usb-ARCHITECTURE is the layer
// with the binary of the USB handler. The same sources give the same bytes, modes and times. Prints
// the number of files of each tree, their size and a digest.
import { createHash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import {
  FOLDERS,
  IMAGES,
  imageContents,
  USB_BINARIES,
  WITH_OPCUA_CLIENT,
} from './image-contents.mjs'
import { copyOpcuaClient } from './images/opcua-client.mjs'
import { unpackUsbBinary } from './images/usb-binary.mjs'
import { BILL, imageFiles } from './shipped.mjs'
import { manifestOf, root } from './workspaces.mjs'

/** Fields of a package.json that are read when a program runs. */
const FIELDS = ['name', 'version', 'license', 'type', 'akri']
const TARGETS = Object.keys({ ...IMAGES, ...WITH_OPCUA_CLIENT, ...USB_BINARIES })

const [out, ...targets] = process.argv.slice(2)
if (out === undefined || targets.some((target) => !TARGETS.includes(target)))
  fail(`usage: node scripts/image-trees.mjs DIRECTORY [${TARGETS.join(' | ')}]...`)
for (const target of targets.length > 0 ? targets : TARGETS) {
  const directory = path.resolve(out, target)
  if (existsSync(directory) && readdirSync(directory).some((name) => name !== 'app'))
    fail(`${directory} holds other things: name an empty directory`)
  const app = path.join(directory, 'app')
  rmSync(app, { recursive: true, force: true })
  if (target in IMAGES) writeImage(target, app)
  else if (target in USB_BINARIES) unpackUsbBinary(USB_BINARIES[target], app)
  else writeOpcuaClient(target, app)
  process.stdout.write(sealTree(app))
}

function writeImage(image, app) {
  const { name, programs, packages, npmPackages } = imageContents(image)
  for (const { folder, files, assets } of programs)
    copyModules({ folder, files: [...files, ...assets] }, path.join(app, FOLDERS[folder] ?? ''))
  const { version } = manifestOf('agent')
  const manifest = { name, version, private: true, type: 'module' }
  write(path.join(app, 'package.json'), `${JSON.stringify(manifest)}\n`)
  for (const [file, text] of Object.entries(imageFiles(image))) write(path.join(app, file), text)
  for (const content of packages) copyPackage(content, app)
  // Its binaries are layers.
  if (npmPackages.includes('usb'))
    for (const file of ['package.json', 'LICENSE.md', 'index.js', 'dist/index.js']) {
      const module = path.join('node_modules/usb', file)
      write(path.join(app, module), readFileSync(path.join(root, module)))
    }
}

function writeOpcuaClient(target, app) {
  const { name, below } = WITH_OPCUA_CLIENT[target]
  write(path.join(app, BILL), imageFiles(below, name, copyOpcuaClient(app))[BILL])
}

function copyPackage({ folder, entries, files, assets }, app) {
  const manifest = manifestOf(folder)
  const to = path.join(app, 'node_modules', manifest.name)
  copyModules({ folder, files }, path.join(to, 'dist'))
  for (const asset of assets)
    cpSync(path.join(root, folder, asset), path.join(to, asset), { recursive: true })
  const kept = FIELDS.filter((field) => field in manifest).map((field) => [field, manifest[field]])
  const exports = Object.entries(manifest.exports)
    .map(([name, { default: module }]) => [name, module])
    // An entry with sources only is for this repository.
    .filter(([, module]) => entries.includes(module?.slice(2)))
  const written = { ...Object.fromEntries(kept), exports: Object.fromEntries(exports) }
  write(path.join(to, 'package.json'), `${JSON.stringify(written)}\n`)
}

function copyModules({ folder, files }, to) {
  const from = path.join(root, folder)
  for (const file of files) {
    if (!existsSync(path.join(from, file)))
      fail(`${folder}/${file} is missing: run node scripts/prepare.mjs`)
    write(path.join(to, path.relative('dist', file)), readFileSync(path.join(from, file)))
  }
}

function write(file, content) {
  // The modules of all programs are in one directory. Shared modules are named by their content.
  if (existsSync(file) && !readFileSync(file).equals(Buffer.from(content)))
    fail(`${file} would be two different files`)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, content)
}

/**
 * Sets all modes and times of a directory to fixed values: the same files give the same layer.
 * @returns a line with the number of the files, their size and a digest
 */
function sealTree(directory) {
  const hash = createHash('sha256')
  const sum = { bytes: 0, files: 0 }
  const visit = (file) => {
    const isDirectory = statSync(file).isDirectory()
    if (isDirectory) for (const name of readdirSync(file).sort()) visit(path.join(file, name))
    else {
      const content = readFileSync(file)
      hash.update(`${path.relative(directory, file)} ${content.length}\n`).update(content)
      sum.bytes += content.length
      sum.files++
    }
    chmodSync(file, isDirectory ? 0o755 : 0o644)
    lutimesSync(file, 0, 0)
  }
  visit(directory)
  const size = `${(sum.bytes / 1e6).toFixed(2)} MB`
  return `${directory}: ${sum.files} files, ${size}, sha256:${hash.digest('hex')}\n`
}

function fail(text) {
  process.stderr.write(`image-trees: ${text}\n`)
  process.exit(1)
}
