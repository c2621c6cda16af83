import { gunzipSync } from 'node:zlib'

/** The longest content of a tarball, in bytes. */
const MAX_BYTES = 512 * 1024 * 1024
/** A tarball consists of blocks: one for the name of a file, then those of its content. */
const BLOCK = 512

/**
 * Reads a file of an npm tarball.
 *
 * @param file its path in the package, such as `package.json`
 * @returns undefined if the package has no such file
 * @throws if the bytes are not compressed as npm does it
 */
export function readPacked(tarball: Uint8Array, file: string): string | undefined {
  const content = gunzipSync(tarball, { maxOutputLength: MAX_BYTES })
  const text = (start: number, length: number) => {
    const field = content.toString('utf8', start, start + length)
    const end = field.indexOf('\0')
    return end === -1 ? field : field.slice(0, end)
  }
  for (let at = 0; at + BLOCK <= content.length; ) {
    const name = text(at, 100)
    const size = Number.parseInt(text(at + 124, 12), 8)
    if (name === '' || !Number.isSafeInteger(size) || size < 0) return undefined
    const start = at + BLOCK
    if (name === `package/${file}`) return content.toString('utf8', start, start + size)
    at = start + Math.ceil(size / BLOCK) * BLOCK
  }
  return undefined
}
