import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const script = path.join(import.meta.dirname, '../../scripts/image-trees.mjs')

/** Writes the content of images to `directory/TARGET/app`. @returns text with a digest for each */
export async function imageTrees(directory: string, ...targets: string[]): Promise<string> {
  return (await run(process.execPath, [script, directory, ...targets])).stdout
}

/** The image with all programs, in `directory/all/app`. */
export function imageTree(directory: string): Promise<string> {
  return imageTrees(directory, 'all')
}

/** The same with the client of node-opcua, whose layer is above the other programs. */
export async function opcuaClientTree(directory: string): Promise<string> {
  const output = await imageTrees(directory, 'all', 'with-opcua-client')
  const layer = path.join(directory, 'with-opcua-client/app')
  await cp(layer, path.join(directory, 'all/app'), { recursive: true })
  // Without the names of directories.
  const digests = output.match(/sha256:\w+/g)?.join('') ?? ''
  return `sha256:${createHash('sha256').update(digests).digest('hex')}`
}
