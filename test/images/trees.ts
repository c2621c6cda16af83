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

/** Adds the layer with the binary of the USB handler for this machine to the tree of an image. */
export async function addUsbBinary(directory: string, target: string): Promise<void> {
  const layer = process.arch === 'arm64' ? 'usb-arm64' : 'usb-amd64'
  await imageTrees(directory, layer)
  const to = path.join(directory, target, 'app')
  await cp(path.join(directory, layer, 'app'), to, { recursive: true })
}
