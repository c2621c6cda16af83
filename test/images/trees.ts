import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const scripts = path.join(import.meta.dirname, '../../scripts')

/** Writes the content of the image to a directory. @returns text with its digest */
export async function imageTree(directory: string): Promise<string> {
  return (await run(process.execPath, [path.join(scripts, 'image-tree.mjs'), directory])).stdout
}

/** The layer with the client of node-opcua, as `imageTree`. */
export async function opcuaClientLayer(directory: string): Promise<string> {
  const script = path.join(scripts, 'opcua-client-tree.mjs')
  return (await run(process.execPath, [script, directory])).stdout
}

/** The tree of the image with the client of node-opcua, in a layer above the other programs. */
export async function opcuaClientTree(directory: string): Promise<string> {
  const layer = `${directory}-layer`
  const outputs = [await imageTree(directory), await opcuaClientLayer(layer)]
  await cp(path.join(layer, 'app'), path.join(directory, 'app'), { recursive: true })
  const both = createHash('sha256').update(outputs.join('')).digest('hex')
  return `sha256:${both}`
}
