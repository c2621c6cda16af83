import { constants } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { isIP } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import { messageOf, withTimeLimit } from '@akrijs/sdk'
import { hostOf } from '@akrijs/sdk/network'
import { OnvifReplyError, OnvifUnreachableError } from '../errors.js'
import type { Destination } from '../network-policy.js'

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

export interface HttpReply {
  readonly status: number
  /** The value of each header `WWW-Authenticate`. */
  readonly challenges: readonly string[]
  readonly body: Buffer
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
    throw new OnvifUnreachableError(`${destination.url.origin}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

function send(
  { url, address }: Destination,
  { headers, body }: HttpRequest,
  { maxBodyBytes, certificates, authorities }: ExchangeOptions,
  signal: AbortSignal,
): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    // After an abort, the error of the socket says nothing.
    const fail = (error: Error) => reject(signal.aborted ? signal.reason : error)
    const secure = url.protocol === 'https:'
    const request = (secure ? https : http).request({
      ...(secure ? trust(url, certificates, authorities) : {}),
      host: address,
      port: url.port || (secure ? 443 : 80),
      path: `${url.pathname}${url.search}`,
      method: 'POST',
      // The connection is not kept: cameras accept few connections.
      agent: false,
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
    request.once('error', fail)
    request.once('response', (response) => {
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
          body: Buffer.concat(chunks),
        })
        // Data after the reply is ignored.
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

function challengesOf({ rawHeaders }: http.IncomingMessage): string[] {
  return rawHeaders.filter(
    (_value, index) =>
      index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'www-authenticate',
  )
}
