import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import { type AddressInfo, isIPv4, isIPv6 } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import { systemClock } from '@akrijs/sdk'
import type { Credential } from '../credentials.js'
import { OnvifXmlError } from '../errors.js'
import { parseXml, type XmlElement } from '../xml/xml.js'
import {
  OPEN_OPERATIONS,
  replyTo,
  type SimulatedIdentity,
  soapEnvelope,
  soapFault,
} from './device-replies.js'
import { type Misbehaviour, misbehave } from './misbehaviour.js'
import {
  type AuthenticationKind,
  RequestAuthentication,
  type Verdict,
} from './request-authentication.js'
import { SNAPSHOT } from './snapshot.js'

export interface DeviceServiceOptions {
  /** The IPv4 or IPv6 address to listen on. @default '127.0.0.1' */
  readonly address?: string
  /** @default a free port */
  readonly port?: number
  /** The interface of a link-local address, such as `eth0`. */
  readonly zone?: string
  /** A key and a certificate: the camera then has https only. */
  readonly tls?: SecureContextOptions
  /**
   * The origin of its URLs, such as `https://camera.example:8443`. @default the address and port
   * that it listens on
   */
  readonly origin?: string
  readonly identity?: Partial<SimulatedIdentity>
  /** The credential that callers need. @default none */
  readonly credential?: Credential
  /**
   * The operations that need no credential. @default those of the access class PRE_AUTH, such as
   * GetSystemDateAndTime
   */
  readonly openOperations?: readonly string[]
  /** The accepted kinds of authentication. @default both */
  readonly authentication?: readonly AuthenticationKind[]
  /**
   * How the camera refuses a request that needs a credential, apart from challenges: the status,
   * the subcode and the reason of the fault. @default 400 with `NotAuthorized`
   */
  readonly refusal?: {
    readonly status: number
    readonly subcode?: string
    /** @default 'Sender not authorized' */
    readonly reason?: string
  }
  /** The algorithms of HTTP digest. @default ['SHA-256', 'MD5'] */
  readonly algorithms?: readonly ('MD5' | 'SHA-256')[]
  /** The number of requests that may use one nonce of HTTP digest. @default no limit */
  readonly nonceUses?: number
  /** How far the camera's clock is ahead, in milliseconds. @default 0 */
  readonly clockOffsetMs?: number
  /** The media services that the camera has. @default [1, 2] */
  readonly media?: readonly (1 | 2)[]
  /** Makes the JPEG of each snapshot. @default a small picture that is always the same */
  readonly picture?: () => Buffer
  /** False for a device older than ONVIF 2.1, which has GetCapabilities only. @default true */
  readonly hasGetServices?: boolean
}

/** A request that the camera received. */
export interface SeenRequest {
  /** The SOAP operation; for other requests, method and path. */
  readonly operation: string
  readonly headers: Readonly<http.IncomingHttpHeaders>
  readonly body: string
}

/** The camera refuses longer requests. */
const MAX_REQUEST_BYTES = 64 * 1024

/**
 * The HTTP side of a simulated camera: device service, media services and a snapshot. It checks
 * credentials, and has the faults of real cameras on demand.
 */
export class DeviceService {
  /** The URL of the device service. */
  readonly url: string
  /** The facts that the camera tells. */
  readonly identity: SimulatedIdentity
  /** All requests so far, in order. */
  readonly requests: SeenRequest[] = []
  readonly #options: DeviceServiceOptions
  readonly #server: http.Server
  readonly #authentication: RequestAuthentication | undefined
  readonly #origin: string
  #misbehaviour:
    | { readonly how: Misbehaviour; readonly operations: readonly string[] | undefined }
    | undefined

  private constructor(options: DeviceServiceOptions, server: http.Server) {
    const {
      credential,
      authentication = ['username-token', 'http-digest'],
      algorithms = ['SHA-256', 'MD5'],
    } = options
    const { nonceUses = Number.POSITIVE_INFINITY } = options
    const { address, port } = addressOf(server)
    const host = isIPv6(address) ? `[${address}]` : address
    this.#options = options
    this.#server = server
    this.#origin = options.origin ?? `${options.tls ? 'https' : 'http'}://${host}:${port}`
    this.identity = {
      ...DEFAULT_IDENTITY,
      ...(isIPv4(address) && { ipAddress: address }),
      ...options.identity,
    }
    this.url = `${this.#origin}/onvif/device_service`
    this.#authentication =
      credential &&
      new RequestAuthentication({
        credential,
        kinds: authentication,
        algorithms,
        nonceUses,
        now: () => this.#now.getTime(),
      })
    server.on('request', (request, response) =>
      this.#answer(request, response).catch(() => response.destroy()),
    )
  }

  static async start(options: DeviceServiceOptions = {}): Promise<DeviceService> {
    const { address = '127.0.0.1', port = 0, zone, tls } = options
    const server = tls ? https.createServer(tls) : http.createServer()
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, zone === undefined ? address : `${address}%${zone}`, resolve)
    })
    return new DeviceService(options, server)
  }

  get port(): number {
    return addressOf(this.#server).port
  }

  /** The number of open connections. */
  connections(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
    })
  }

  /**
   * Begins to misbehave, or ends it with undefined. @param operations the operations that it
   * concerns. @default all
   */
  misbehave(how: Misbehaviour | undefined, operations?: readonly string[]): void {
    this.#misbehaviour = how && { how, operations }
  }

  /** Closes the server and all connections. */
  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get #now(): Date {
    return new Date(systemClock.wallMs() + (this.#options.clockOffsetMs ?? 0))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request)
    response.setHeader('date', this.#now.toUTCString())
    const [path] = (request.url ?? '').split('?')
    if (path?.startsWith('/onvif/') && request.method === 'POST')
      this.#answerSoap(request, response, body)
    else this.#answerSnapshot(request, response, path ?? '')
  }

  #answerSnapshot(request: IncomingMessage, response: ServerResponse, path: string): void {
    this.requests.push({
      operation: `${request.method} ${path}`,
      headers: request.headers,
      body: '',
    })
    const token = decodeURIComponent(/^\/snapshot\/([\w%.-]+)$/.exec(path)?.[1] ?? '')
    if (request.method !== 'GET' || !this.identity.profiles.includes(token))
      response.writeHead(404).end()
    else if (this.#admits(response, this.#authentication?.check(request, undefined))) {
      const { picture = () => SNAPSHOT } = this.#options
      const jpeg = picture()
      response
        .writeHead(200, { 'content-type': 'image/jpeg', 'content-length': jpeg.length })
        .end(jpeg)
    }
  }

  #answerSoap(request: IncomingMessage, response: ServerResponse, body: string): void {
    const envelope = envelopeOf(body)
    const operation = envelope?.find('Body')?.children[0]
    this.requests.push({ operation: operation?.name ?? '', headers: request.headers, body })
    const how = operation && this.#misbehaviourIn(operation.name)
    const { openOperations = OPEN_OPERATIONS } = this.#options
    const open = operation === undefined || openOperations.includes(operation.name)
    const verdict =
      how === 'endless-challenge' ? this.#authentication?.challenge({ stale: true }) : undefined
    if (
      !this.#admits(
        response,
        verdict ??
          (open ? undefined : this.#authentication?.check(request, envelope?.find('Header'))),
      )
    )
      return
    const content = operation && this.#contentOf(operation)
    if (operation === undefined) send(response, 400, soapFault('WellFormed', 'not a SOAP request'))
    else if (content === undefined)
      send(response, 500, soapFault('ActionNotSupported', `no operation ${operation.name}`))
    else if (how === undefined || how === 'endless-challenge')
      send(response, 200, soapEnvelope(content))
    else misbehave(how, response, soapEnvelope(content))
  }

  #misbehaviourIn(operation: string): Misbehaviour | undefined {
    const { how, operations } = this.#misbehaviour ?? {}
    return operations === undefined || operations.includes(operation) ? how : undefined
  }

  #contentOf(operation: XmlElement): string | undefined {
    const { media = [1, 2], hasGetServices = true } = this.#options
    if (operation.name === 'GetServices' && !hasGetServices) return undefined
    const host = new URL(this.#origin).hostname
    return replyTo(operation, {
      identity: this.identity,
      origin: this.#origin,
      host,
      media,
      now: this.#now,
    })
  }

  /** @returns whether the request is admitted; otherwise this method answers it */
  #admits(response: ServerResponse, verdict: Verdict | undefined): boolean {
    const { refusal = { status: 400, subcode: 'NotAuthorized' } } = this.#options
    const { status, subcode, reason = 'Sender not authorized' } = refusal
    if (verdict?.kind === 'fault') send(response, status, soapFault(subcode, reason))
    else if (verdict?.kind === 'challenge')
      response.writeHead(401, { 'www-authenticate': [...verdict.headers] }).end()
    else return true
    return false
  }
}

const DEFAULT_IDENTITY: SimulatedIdentity = {
  manufacturer: 'Akri',
  model: 'Simulated camera',
  firmware: '1.10',
  serialNumber: '00000000000000000001',
  hardwareId: 'simulated',
  macAddress: '02:00:00:00:00:01',
  ipAddress: '192.0.2.1',
  scopes: [
    'onvif://www.onvif.org/name/simulated',
    'onvif://www.onvif.org/location/laboratory',
    'onvif://www.onvif.org/hardware/simulated',
    'onvif://www.onvif.org/type/video_encoder',
    'onvif://www.onvif.org/Profile/Streaming',
  ],
  profiles: ['main', 'sub'],
}

function addressOf(server: http.Server): AddressInfo {
  const address = server.address()
  if (address === null || typeof address === 'string')
    throw new TypeError('server listens on no port')
  return { ...address, address: address.address.replace(/%.*$/, '') }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request) {
    chunks.push(chunk)
    length += chunk.length
    if (length > MAX_REQUEST_BYTES)
      throw new RangeError(`request has more than ${MAX_REQUEST_BYTES} bytes`)
  }
  return Buffer.concat(chunks).toString()
}

function envelopeOf(body: string): XmlElement | undefined {
  try {
    return parseXml(body)
  } catch (error) {
    if (OnvifXmlError.is(error)) return undefined
    throw error
  }
}

function send(response: ServerResponse, status: number, body: string | Buffer): void {
  response.writeHead(status, {
    'content-type': 'application/soap+xml; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  })
  response.end(body)
}
