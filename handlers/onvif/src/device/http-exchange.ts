import { constants } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import net, { isIP } from 'node:net'
import { Duplex } from 'node:stream'
import tls, { type SecureContextOptions } from 'node:tls'
import { messageOf, withTimeLimit } from '@akrijs/sdk'
import { hostOf } from '@akrijs/sdk/network'
import { OnvifReplyError, OnvifUnreachableError } from '../errors.js'
import type { Destination } from '../network-policy.js'
import type { WrittenBody } from './reply-body.js'
import { ReplyHeader } from './reply-header.js'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const http = process.getBuiltinModule('node:http')

/** Which certificates of cameras are trusted. */
export interface CertificatePolicy {
  /**
   * `any`: each certificate. Most cameras sign their own, and http has none at all. `verify`: a
   * certificate that an authority has signed for the host of the URL. By http, no credential is
   * sent then.
   * @default 'any'
   */
  readonly certificates?: 'any' | 'verify' | undefined
  /**
   * Certificates, in PEM, of the authorities that `verify` trusts. @default the authorities of
   * Node.js
   */
  readonly authorities?: string | undefined
}

interface HttpRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface HttpReply extends WrittenBody {
  readonly status: number
  /** The value of each header `WWW-Authenticate`. */
  readonly challenges: readonly string[]
  /** The header `Date`; empty if it is missing. */
  readonly date: string
}

interface ExchangeOptions extends CertificatePolicy {
  /** From the connection to the last byte of the reply, in milliseconds. */
  readonly timeoutMs: number
  readonly maxBodyBytes: number
  readonly signal: AbortSignal
}

/** More than any camera sends. */
const MAX_HEADER_BYTES = 16 * 1024

/**
 * Posts one request on a new connection. A redirect is a reply, and is not followed.
 * @throws OnvifUnreachableError with the origin of the URL; the signal's reason
 */
export async function exchange(
  destination: Destination,
  request: HttpRequest,
  options: ExchangeOptions,
): Promise<HttpReply> {
  const { signal, timeoutMs } = options
  try {
    return await withTimeLimit(timeoutMs, signal, (limited) =>
      send(destination, request, options, limited),
    )
  } catch (error) {
    signal.throwIfAborted()
    throw new OnvifUnreachableError(`${destination.url.origin}: ${reasonOf(error)}`, {
      cause: error,
    })
  }
}

/** The parser of Node.js has its reason in a property of its error. */
function reasonOf(error: unknown): string {
  return error instanceof Error && 'reason' in error
    ? `the header of the answer is not HTTP: ${error.reason}`
    : messageOf(error)
}

function send(
  { url, address }: Destination,
  { headers, body }: HttpRequest,
  { maxBodyBytes, certificates, authorities }: ExchangeOptions,
  signal: AbortSignal,
): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    const secure = url.protocol === 'https:'
    const target = { host: address, port: Number(url.port || (secure ? 443 : 80)) }
    let reply: IncomingMessage | undefined
    const fail = (error: Error) => {
      // Data after the reply is ignored.
      if (reply?.complete) return
      // After an abort, the error of the socket says nothing.
      reject(signal.aborted ? signal.reason : error)
    }
    const request = http.request({
      // The connection is not kept: cameras accept few connections.
      createConnection: () =>
        new CameraConnection(
          secure
            ? tls.connect({ ...target, ...trust(url, certificates, authorities) })
            : net.connect(target),
        ),
      path: `${url.pathname}${url.search}`,
      method: 'POST',
      maxHeaderSize: MAX_HEADER_BYTES,
      // Small devices write loose HTTP. There is no proxy that could read it in another way.
      insecureHTTPParser: true,
      headers: {
        host: url.host,
        connection: 'close',
        ...headers,
        'content-length': Buffer.byteLength(body),
      },
      signal,
    })
    request.on('error', fail)
    request.once('response', (response) => {
      reply = response
      const chunks: Buffer[] = []
      let length = 0
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length > maxBodyBytes)
          response.destroy(new OnvifReplyError(`the reply has more than ${maxBodyBytes} bytes`))
      })
      response.once('error', fail)
      response.once('end', () => {
        resolve({
          status: response.statusCode ?? 0,
          challenges: challengesOf(response),
          date: response.headers.date ?? '',
          contentType: response.headers['content-type'] ?? '',
          contentEncoding: response.headers['content-encoding'] ?? '',
          body: Buffer.concat(chunks),
        })
        request.destroy()
      })
    })
    // An unexpected upgrade would keep the socket open.
    request.once('upgrade', (_response, socket) => {
      socket.destroy()
      reject(new OnvifReplyError('it switched to another protocol than HTTP'))
    })
    request.end(body)
  })
}

/** A connection to a camera whose reply has an acceptable header. */
class CameraConnection extends Duplex {
  readonly #socket: net.Socket
  readonly #header = new ReplyHeader()

  constructor(socket: net.Socket) {
    super({ allowHalfOpen: false })
    this.#socket = socket
    socket.on('data', (chunk: Buffer) => {
      const bytes = this.#header.push(chunk)
      if (bytes.length > 0 && !this.push(bytes)) socket.pause()
    })
    socket.once('end', () => {
      this.push(this.#header.end())
      this.push(null)
    })
    socket.once('error', (error) => this.destroy(error))
    socket.once('close', () => this.destroy())
  }

  override _read(): void {
    this.#socket.resume()
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void) {
    this.#socket.write(chunk, encoding, done)
  }

  override _final(done: () => void): void {
    this.#socket.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy()
    done(error)
  }
}

function trust(
  url: URL,
  certificates: CertificatePolicy['certificates'],
  authorities: string | undefined,
) {
  const host = hostOf(url)
  const servername = isIP(host) > 0 ? '' : host
  // Old cameras have an old TLS version, which is no worse than http.
  const lenient: SecureContextOptions = {
    minVersion: 'TLSv1',
    ciphers: 'DEFAULT:@SECLEVEL=0',
    secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
  }
  return certificates === 'verify'
    ? {
        servername,
        rejectUnauthorized: true,
        ...(authorities !== undefined && { ca: authorities }),
      }
    : { servername, rejectUnauthorized: false, ...lenient }
}

function challengesOf({ rawHeaders }: IncomingMessage): string[] {
  return rawHeaders.filter(
    (_value, index) =>
      index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'www-authenticate',
  )
}
