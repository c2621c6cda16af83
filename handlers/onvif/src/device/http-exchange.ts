import { constants } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { isIP } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import { messageOf } from '@akrijs/sdk'
import { OnvifUnreachableError } from '../errors.js'
import type { Destination } from '../network-policy.js'
import { withDeadline } from './deadline.js'

/** How far the certificate of a camera is trusted. */
export interface CertificatePolicy {
  /**
   * `any`: whatever certificate a camera has. Most have made theirs themselves, and http, which tells nobody from anybody, is
   * spoken too. `verify`: only those that an authority has signed, for this very address; what is reached by http is asked without a
   * credential then.
   * @default 'any'
   */
  readonly certificates?: 'any' | 'verify' | undefined
  /** Certificates of authorities in PEM that are trusted by `verify`. @default those that come with Node */
  readonly authorities?: string | undefined
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface HttpReply {
  readonly status: number
  /** What the header `WWW-Authenticate` says, each time that it is there. */
  readonly challenges: readonly string[]
  readonly body: Buffer
}

export interface ExchangeOptions extends CertificatePolicy {
  /** The whole of it: name of the host, connection, request, and the reply to its last byte. In milliseconds. */
  readonly timeoutMs: number
  readonly maxBodyBytes: number
  readonly signal: AbortSignal
}

/** No camera's headers are that long. */
const MAX_HEADER_BYTES = 16 * 1024

/**
 * One request on a connection of its own. Redirects are not followed: a reply with one is a reply.
 * @throws OnvifUnreachableError naming the address; the signal's reason
 */
export async function exchange(
  destination: Destination,
  request: HttpRequest,
  options: ExchangeOptions,
): Promise<HttpReply> {
  const { signal, timeoutMs } = options
  const late = () => new Error(`it took longer than ${timeoutMs} ms`)
  try {
    return await withDeadline(signal, timeoutMs, late, (within) =>
      send(destination, request, options, within),
    )
  } catch (error) {
    signal.throwIfAborted()
    throw new OnvifUnreachableError(`${destination.url.origin}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

function send(
  { url, address }: Destination,
  { method, headers, body }: HttpRequest,
  { maxBodyBytes, certificates, authorities }: ExchangeOptions,
  signal: AbortSignal,
): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    const secure = url.protocol === 'https:'
    const request = (secure ? https : http).request({
      ...(secure ? trust(url, certificates, authorities) : {}),
      host: address,
      port: url.port || (secure ? 443 : 80),
      path: `${url.pathname}${url.search}`,
      method,
      // Not kept open: cameras have few connections.
      agent: false,
      maxHeaderSize: MAX_HEADER_BYTES,
      // Takes what small devices write; nobody stands between them and us whom that could confuse.
      insecureHTTPParser: true,
      headers: {
        host: url.host,
        connection: 'close',
        ...headers,
        ...(body && { 'content-length': Buffer.byteLength(body) }),
      },
      signal,
    })
    request.once('error', reject)
    request.once('response', (response) => {
      const chunks: Buffer[] = []
      let length = 0
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length > maxBodyBytes)
          response.destroy(new Error(`it answers more than ${maxBodyBytes} bytes`))
      })
      response.once('error', reject)
      response.once('end', () => {
        resolve({
          status: response.statusCode ?? 0,
          challenges: challengesOf(response),
          body: Buffer.concat(chunks),
        })
        // What comes after the reply is of no interest.
        request.destroy()
      })
    })
    // A protocol of its own, which nobody has asked for, would keep the socket.
    request.once('upgrade', (_response, socket) => {
      socket.destroy()
      reject(new Error('it speaks another protocol than HTTP'))
    })
    request.end(body)
  })
}

function trust(
  url: URL,
  certificates: CertificatePolicy['certificates'],
  authorities: string | undefined,
) {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const servername = isIP(host) > 0 ? '' : host
  // Old cameras have old TLS, which is no worse than http.
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

function challengesOf({ rawHeaders }: http.IncomingMessage): string[] {
  return rawHeaders.filter(
    (_value, index) =>
      index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'www-authenticate',
  )
}
