import type { IncomingMessage } from 'node:http'

/**
 * Reads the body of a request.
 * @param longest in bytes
 * @param onLength called before the bytes are taken from the memory
 * @returns undefined, as soon as the body is too large
 * @throws if the connection closes before
 */
export async function bodyOf(
  request: IncomingMessage,
  longest: number,
  onLength: (bytes: number) => void,
): Promise<Buffer | undefined> {
  const { 'transfer-encoding': coding, 'content-length': told = 0 } = request.headers
  const length = coding === undefined ? Number(told) : longest
  if (length > longest) return undefined
  onLength(length)
  // Not a list of pieces: each piece of one byte would take 200 bytes.
  const body = Buffer.allocUnsafeSlow(length)
  let received = 0
  return new Promise((resolve, reject) => {
    request.on('data', (piece: Buffer) => {
      if (received + piece.length > length) resolve(undefined)
      else received += piece.copy(body, received)
    })
    request.once('end', () => resolve(body.subarray(0, received)))
    request.once('close', () => reject(new Error('the connection closed within a request')))
  })
}
