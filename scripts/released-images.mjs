// Usage: node scripts/released-images.mjs FILE. Prints a line for each image that
// `docker buildx bake --metadata-file FILE` pushed: its target, and its name with its digest. Fails
// if a target of the bake file is not there.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { IMAGES, WITH_OPCUA_CLIENT } from './image-contents.mjs'

const [file, ...more] = process.argv.slice(2)
if (file === undefined || more.length > 0) fail('usage: node scripts/released-images.mjs FILE')
const metadata = JSON.parse(readFileSync(path.resolve(file), 'utf8'))
for (const target of Object.keys({ ...IMAGES, ...WITH_OPCUA_CLIENT })) {
  const { 'image.name': name = '', 'containerimage.digest': digest = '' } = metadata[target] ?? {}
  // The tag is behind the last colon, the port of a registry before a slash.
  const [, repository] = /^([^,]+):[^:/,]+$/.exec(name) ?? []
  if (repository === undefined || !/^sha256:[0-9a-f]{64}$/.test(digest))
    fail(`${file} has no name and digest of the target ${target}`)
  process.stdout.write(`${target} ${repository}@${digest}\n`)
}

function fail(text) {
  process.stderr.write(`released-images: ${text}\n`)
  process.exit(1)
}
