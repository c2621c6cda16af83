import net from 'node:net'
import { BinaryReader } from '../src/ua-tcp/binary-reader.js'
import { BinaryWriter } from '../src/ua-tcp/binary-writer.js'
import {
  type ApplicationDescription,
  ApplicationType,
  type EndpointDescription,
  type ServerOnNetwork,
} from '../src/ua-tcp/discovery-services.js'
import { encodeFrame, type Frame, FrameReader } from '../src/ua-tcp/frame.js'
import {
  encodeAcknowledge,
  encodeFault,
  encodeFindServersOnNetworkResponse,
  encodeFindServersResponse,
  encodeGetEndpointsResponse,
  encodeOpenSecureChannelResponse,
} from './encode-response.js'

const CHANNEL = 7
const TOKEN = 9
const SERVICE_UNSUPPORTED = 0x800b_0000

type Service = 'FindServers' | 'GetEndpoints' | 'FindServersOnNetwork'

/** A server or discovery server over a real socket, with answers that a test defines. */
export class SimulatedServer {
  port = 0
  /** `opc.tcp://address:port/`. */
  url = ''
  /** The answer to FindServers; at first, the server itself. */
  applications: readonly ApplicationDescription[] = []
  /** The answer to GetEndpoints. */
  endpoints: readonly EndpointDescription[] = []
  /** The answer to FindServersOnNetwork; undefined for an unsupported service. */
  records: readonly ServerOnNetwork[] | undefined
  /** Accepts connections and never answers. */
  silent = false
  /** Answers only after this promise settled. */
  answersAfter: Promise<unknown> | undefined
  /**
   * Reports the URL of the request as the URL of all applications, as the discovery server of
   * open62541 does.
   */
  echoes = false
  /** Encoded answers in place of those above, by service. */
  readonly responses = new Map<Service, Buffer>()
  /** Sends the answers to a message in another way. Returns `silent` if there is no answer. */
  send: ((socket: net.Socket, answers: readonly Buffer[], to: Frame['type']) => unknown) | undefined
  /** The open connections whose client waits for an answer that never comes. */
  readonly unanswered = new Set<net.Socket>()
  /** The size of a chunk of an answer, in bytes. */
  chunkBytes = 65_000
  /** The received requests. */
  readonly asked: Service[] = []
  /** The number of accepted connections. */
  accepted = 0
  readonly #server = net.createServer((socket) => this.#serve(socket))
  readonly #sockets = new Set<net.Socket>()

  /** @param options.port @default a free port */
  static async start({
    name = 'Simulated',
    host = '127.0.0.1',
    port = 0,
  }: {
    readonly name?: string
    readonly host?: string
    readonly port?: number
  } = {}): Promise<SimulatedServer> {
    const simulated = new SimulatedServer()
    await new Promise<void>((resolve, reject) => {
      simulated.#server.once('error', reject).listen(port, host, resolve)
    })
    const address = simulated.#server.address()
    if (typeof address === 'object' && address !== null) simulated.port = address.port
    simulated.url = `opc.tcp://${net.isIPv6(host) ? `[${host}]` : host}:${simulated.port}/`
    const server = application({ applicationName: name, discoveryUrls: [simulated.url] })
    simulated.applications = [server]
    simulated.endpoints = [endpoint(server)]
    return simulated
  }

  /** The number of open connections. */
  get connections(): number {
    return this.#sockets.size
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #serve(socket: net.Socket): void {
    this.accepted++
    this.#sockets.add(socket)
    socket.on('close', () => {
      this.#sockets.delete(socket)
      this.unanswered.delete(socket)
    })
    socket.on('error', () => socket.destroy())
    if (this.silent) {
      socket.on('data', () => this.unanswered.add(socket))
      return
    }
    const frames = new FrameReader({ chunkBytes: 65_536 })
    let sequence = 50
    const respond = (bytes: Buffer) => {
      for (const frame of frames.push(bytes)) {
        const answers = this.#answer(frame, () => ++sequence)
        if (this.send !== undefined) {
          if (this.send(socket, answers, frame.type) === 'silent') this.unanswered.add(socket)
        } else for (const answer of answers) socket.write(answer)
      }
    }
    socket.on('data', (bytes) => {
      if (this.answersAfter === undefined) respond(bytes)
      else void this.answersAfter.then(() => respond(bytes))
    })
  }

  #answer({ type, body }: Frame, next: () => number): Buffer[] {
    if (type === 'HEL') return [encodeAcknowledge()]
    const reader = new BinaryReader(body)
    if (type === 'OPN') {
      reader.uint32()
      const policy = reader.string()
      reader.byteString()
      reader.byteString()
      reader.uint32()
      const header = new BinaryWriter()
        .uint32(CHANNEL)
        .string(policy)
        .byteString(null)
        .byteString(null)
      header.uint32(next()).uint32(reader.uint32())
      return [
        encodeFrame(
          'OPN',
          'F',
          header.raw(encodeOpenSecureChannelResponse(CHANNEL, TOKEN)).bytes(),
        ),
      ]
    }
    if (type !== 'MSG') return []
    for (let skipped = 0; skipped < 3; skipped++) reader.uint32()
    return this.#chunks(reader.uint32(), this.#respond(reader), next)
  }

  #respond(request: BinaryReader): Buffer {
    const type = request.nodeId()
    this.#skipHeader(request)
    switch (type) {
      case 422: {
        const url = request.string()
        const echo = this.echoes && url !== ''
        return this.#answerTo('FindServers', () =>
          encodeFindServersResponse(
            echo
              ? this.applications.map((application) => ({ ...application, discoveryUrls: [url] }))
              : this.applications,
          ),
        )
      }
      case 428:
        return this.#answerTo('GetEndpoints', () => encodeGetEndpointsResponse(this.endpoints))
      case 12_208:
        return this.#answerTo('FindServersOnNetwork', () =>
          this.records === undefined
            ? encodeFault(SERVICE_UNSUPPORTED)
            : encodeFindServersOnNetworkResponse(this.records),
        )
      default:
        return encodeFault(SERVICE_UNSUPPORTED)
    }
  }

  #answerTo(service: Service, encode: () => Buffer): Buffer {
    this.asked.push(service)
    return this.responses.get(service) ?? encode()
  }

  #skipHeader(request: BinaryReader): void {
    request.nodeId()
    request.dateTime()
    request.uint32()
    request.uint32()
    request.string()
    request.uint32()
    request.skipExtensionObject()
  }

  #chunks(requestId: number, response: Buffer, next: () => number): Buffer[] {
    const count = Math.ceil(response.length / this.chunkBytes)
    return Array.from({ length: count }, (_, index) => {
      const part = response.subarray(index * this.chunkBytes, (index + 1) * this.chunkBytes)
      const body = new BinaryWriter()
        .uint32(CHANNEL)
        .uint32(TOKEN)
        .uint32(next())
        .uint32(requestId)
        .raw(part)
      return encodeFrame('MSG', index === count - 1 ? 'F' : 'C', body.bytes())
    })
  }
}

/** The description of an application, by default a server. */
export function application(given: Partial<ApplicationDescription> = {}): ApplicationDescription {
  return {
    applicationUri: `urn:test:${given.applicationName ?? 'simulated'}`,
    productUri: 'urn:test:product',
    applicationName: 'Simulated',
    applicationType: ApplicationType.server,
    discoveryUrls: [],
    ...given,
  }
}

/** An endpoint, by default without security. */
export function endpoint(
  server: ApplicationDescription,
  given: Partial<EndpointDescription> = {},
): EndpointDescription {
  return {
    endpointUrl: server.discoveryUrls[0] ?? 'opc.tcp://127.0.0.1:4840',
    server,
    serverCertificate: Buffer.alloc(0),
    securityMode: 1,
    securityPolicyUri: 'http://opcfoundation.org/UA/SecurityPolicy#None',
    userTokenTypes: [0],
    ...given,
  }
}

/** The application of a discovery server. */
export const DISCOVERY_SERVER = application({
  applicationUri: 'urn:test:lds',
  applicationName: 'LDS',
  applicationType: ApplicationType.discoveryServer,
  discoveryUrls: ['opc.tcp://127.0.0.1:4840'],
})
