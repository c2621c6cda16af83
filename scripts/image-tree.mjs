// Usage: node scripts/image-tree.mjs DIRECTORY [IMAGE]. Makes the file tree of an image in the
// directory from the output of `npm run build`: /app with the programs and, in its node_modules,
// the handlers and the SDK that they share, and nothing else. Without IMAGE, a name in
// image-contents.mjs, the image has all of them. The same sources give the same bytes, modes and
// times. Prints the number of files, their size and a digest.
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { imageContents } from './image-contents.mjs'
import { sealTree } from './seal-tree.mjs'
import { imageFiles } from './shipped.mjs'
import { manifestOf, root } from './workspaces.mjs'

/** Fields of a package.json that are read when a program runs. */
const FIELDS = ['name', 'version', 'license', 'type', 'akri']

const [out, image, ...more] = process.argv.slice(2)
if (out === undefined || more.length > 0)
  fail('usage: node scripts/image-tree.mjs DIRECTORY [IMAGE]')
const target = path.resolve(out)
if (existsSync(target) && readdirSync(target).some((name) => name !== 'app'))
  fail(`${target} holds other things: name an empty directory`)
const app = path.join(target, 'app')
rmSync(app, { recursive: true, force: true })

const { version } = manifestOf('agent')
const { name, programs, packages } = imageContents(image)
for (const program of programs) copyModules(program, app)
write(
  path.join(app, 'package.json'),
  `${JSON.stringify({ name, version, private: true, type: 'module' })}\n`,
)
for (const [file, text] of Object.entries(imageFiles(image))) write(path.join(app, file), text)
for (const content of packages) copyPackage(content)
process.stdout.write(sealTree(app))

function copyPackage({ folder, entries, files, assets }) {
  const manifest = manifestOf(folder)
  const to = path.join(app, 'node_modules', manifest.name)
  copyModules({ folder, files }, path.join(to, 'dist'))
  for (const asset of assets)
    cpSync(path.join(root, folder, asset), path.join(to, asset), { recursive: true })
  const kept = FIELDS.filter((field) => field in manifest).map((field) => [field, manifest[field]])
  write(
    path.join(to, 'package.json'),
    `${JSON.stringify({
      ...Object.fromEntries(kept),
      exports: Object.fromEntries(
        Object.entries(manifest.exports)
          .map(([name, { default: module }]) => [name, module])
          // An entry with sources only is for this repository.
          .filter(([, module]) => entries.includes(module?.slice(2))),
      ),
    })}\n`,
  )
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

function fail(text) {
  process.stderr.write(`image-tree: ${text}\n`)
  process.exit(1)
}
