import { randomBytes } from 'node:crypto'
import net from 'node:net'
import { Duplex, pipeline } from 'node:stream'
import tls from 'node:tls'
import type { DiscoveryProperties } from '@akrijs/sdk'
import { MqttClient } from 'mqtt'
import { MqttBrokerError } from './errors.js'
import { PacketFilter } from './packet-filter.js'

/** The time limit of a connection, in milliseconds. */
const CONNECT_MS = 10_000
/** A broker that is silent for one and a half of this time is away, in seconds. */
const KEEPALIVE_SECONDS = 30
/** Answers to a connection: bad user name or password, not authorized (MQTT 3.1.1, 3.2.2.3). */
const REFUSALS = [4, 5]

export interface BrokerOptions {
  /** Without a user name or a password. */
  readonly url: string
  /** `username` and `password`; `ca`, `cert` and `key` in PEM. */
  readonly properties: DiscoveryProperties
  /** Longer packets are left out. */
  readonly maxPacketBytes: number
}

/**
 * A connection to a broker. It does not connect again: the agent calls `discover` again, with a
 * back-off, and keeps the devices meanwhile. Only a new list shows which of them are gone.
 */
export class Broker {
  readonly #client: MqttClient
  readonly #filter: PacketFilter
  readonly #url: string
  /** @throws MqttBrokerError when the connection ends, or cannot be opened */
  readonly lost: Promise<never>

  /** @throws MqttBrokerError if the certificates cannot be used */
  constructor({ url, properties, maxPacketBytes }: BrokerOptions) {
    const username = textOf(properties, 'username')
    const password = textOf(properties, 'password')
    const connect = socketOf(url, properties)
    this.#url = url
    this.#filter = new PacketFilter(maxPacketBytes)
    this.#client = new MqttClient(
      () => {
        const socket = connect()
        const readable = pipeline(socket, this.#filter, () => undefined)
        const stream = Duplex.from({ readable, writable: socket })
        // Without an error, nothing else ends the other half.
        socket.once('close', () => stream.destroy())
        return stream
      },
      {
        clientId: `akri-${randomBytes(6).toString('hex')}`,
        ...(username !== undefined && { username, password: password ?? '' }),
        ...{ connectTimeout: CONNECT_MS, keepalive: KEEPALIVE_SECONDS, reconnectPeriod: 0 },
        // A cache of 65,536 numbers takes 11 MB.
        writeCache: false,
      },
    )
    this.lost = new Promise((_, reject) => {
      this.#client.on('error', (error) => {
        const isRefused = REFUSALS.includes(Number(Reflect.get(error, 'code')))
        if (!isRefused) reject(this.#error('cannot be used', error))
        else if (username === undefined)
          reject(this.#error('wants a user name: write discoveryProperties username and password'))
        else reject(this.#error('refuses the username and password of discoveryProperties'))
      })
      this.#client.on('close', () => reject(this.#error('has closed the connection')))
    })
    this.lost.catch(() => undefined)
  }

  /** The number of packets that were too long. */
  get leftOut(): number {
    return this.#filter.leftOut
  }

  onMessage(listener: (topic: string, payload: Buffer) => void): void {
    this.#client.on('message', listener)
  }

  /** Waits for the connection, too. @throws MqttBrokerError */
  async subscribe(topics: readonly string[]): Promise<void> {
    const granted = this.#client.subscribeAsync([...topics], { qos: 0 }).catch((error: unknown) => {
      throw this.#error(`refuses the subscription to ${topics.join(', ')}`, error)
    })
    await Promise.race([granted, this.lost])
  }

  close(): void {
    this.#client.end(true)
  }

  #error(problem: string, cause?: unknown): MqttBrokerError {
    return new MqttBrokerError(`the broker ${this.#url} ${problem}`, { cause })
  }
}

/** Opens connections. @throws MqttBrokerError if the certificates cannot be used */
function socketOf(url: string, properties: DiscoveryProperties): () => net.Socket {
  const { protocol, hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  if (protocol === 'mqtt:') return () => net.connect({ host, port: Number(port || 1883) })
  const [ca, cert, key] = ['ca', 'cert', 'key'].map((name) => properties.text(name))
  try {
    const secureContext = tls.createSecureContext({ ca, cert, key })
    const target = { host, port: Number(port || 8883), secureContext }
    // The name is checked by default. An address has no place in SNI.
    return () => tls.connect({ ...target, ...(net.isIP(host) === 0 && { servername: host }) })
  } catch (error) {
    throw new MqttBrokerError(
      `discoveryProperties ca, cert and key cannot be used for the broker ${url}`,
      { cause: error },
    )
  }
}

/** Files of Secrets often end with a line break. */
function textOf(properties: DiscoveryProperties, name: string): string | undefined {
  return properties.text(name)?.replace(/\r?\n$/, '')
}
