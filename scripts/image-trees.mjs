// Usage: node scripts/image-trees.mjs DIRECTORY. Makes the file trees of all images:
// DIRECTORY/IMAGE is what image-tree.mjs makes of the image. DIRECTORY/TARGET of a target with the
// client of node-opcua has the further layer alone.
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { IMAGES, WITH_OPCUA_CLIENT } from './image-contents.mjs'

const [out, ...more] = process.argv.slice(2)
if (out === undefined || more.length > 0) {
  process.stderr.write('usage: node scripts/image-trees.mjs DIRECTORY\n')
  process.exit(1)
}
for (const [script, targets] of [
  ['image-tree.mjs', IMAGES],
  ['opcua-client-tree.mjs', WITH_OPCUA_CLIENT],
])
  for (const target of Object.keys(targets)) {
    const args = [path.join(import.meta.dirname, script), path.join(out, target), target]
    const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' })
    if (status !== 0) process.exit(1)
  }
