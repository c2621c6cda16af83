import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { MAX_MANIFEST_BYTES } from '@akrijs/api'

/**
 * Reads a file, or standard input for `-`. Reads one byte more than a file of manifests may have,
 * so that its parser refuses a longer one: a pipe or a device may have no end.
 * @throws the error of the file system
 */
export async function readManifest(
  file: string,
  input: () => Readable = () => process.stdin,
): Promise<string> {
  // Not /dev/stdin, which cannot be opened if it is a socket.
  const stream = file === '-' ? input() : createReadStream(file)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    const buffer = Buffer.from(chunk)
    chunks.push(buffer)
    bytes += buffer.length
    if (bytes > MAX_MANIFEST_BYTES) break
  }
  return Buffer.concat(chunks).toString('utf8')
}
