import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { isIPv6 } from 'node:net'
import os from 'node:os'
import { systemClock } from '@akrijs/sdk'
import { type Datagram, UdpSocket } from '@akrijs/sdk/network'
import { OnvifMessageError } from '../errors.js'
import {
  DISCOVERY_GROUP,
  DISCOVERY_PORT,
  type DiscoveryMessage,
  decodeMessage,
} from '../ws-discovery/message.js'
import { MULTICAST, retransmissions, UNICAST } from '../ws-discovery/retransmission.js'
import type { QualifiedName } from '../xml/xml.js'
import {
  type AnnouncementText,
  encodeBye,
  encodeHello,
  encodeProbeMatches,
  encodeResolveMatches,
} from './device-messages.js'

/** The faults of a camera's discovery. They may change at any time. */
export interface DiscoveryFaults {
  /** The camera answers no Probe. @default false */
  silent?: boolean
  /**
   * The delay of an answer, in milliseconds. @default random, up to the 500 ms of the specification
   */
  delayMs?: number
  /** The answer is not XML. @default false */
  garbage?: boolean
  /** Only the answer to a Resolve has the URLs. @default false */
  withoutUrls?: boolean
  /** The answer ends with these bytes. @default '' */
  tail?: string
  /** Changes the text of the answer; bytes for other encodings. @default the text as it is */
  rewrite?: (answer: string) => string | Uint8Array
  /** The answer has almost 16 KiB, which is the limit of the handler. @default false */
  huge?: boolean
  /** The answer names a Probe that does not exist. @default false */
  wrongRelatesTo?: boolean
  /** Further devices in the same answer. @default [] */
  furtherMatches?: readonly AnnouncementText[]
}

type Question = Extract<DiscoveryMessage, { readonly kind: 'Probe' | 'Resolve' }>

interface DiscoveryResponderOptions {
  /** An address of this machine; a link-local address with its zone, such as `fe80::1%eth0`. */
  readonly address: string
  readonly announcement: () => AnnouncementText
  readonly faults: DiscoveryFaults
}

/** The longest delay of an answer by the specification, in milliseconds (APP_MAX_DELAY). */
const MAX_DELAY_MS = 500
/** The number of MessageIDs that are remembered: a repeated Probe gets one answer. */
const MAX_REMEMBERED = 64
const HUGE_SCOPE = `onvif://www.onvif.org/${'x'.repeat(14_000)}`

/**
 * The WS-Discovery side of a camera: answers Probes to the group and to its address, and sends
 * Hello and Bye.
 */
export class DiscoveryResponder {
  readonly #options: DiscoveryResponderOptions
  readonly #stop = new AbortController()
  readonly #sockets: UdpSocket[] = []
  readonly #answered: string[] = []
  #probes = 0

  private constructor(options: DiscoveryResponderOptions) {
    this.#options = options
    // Each repetition of an answer listens to this signal.
    setMaxListeners(0, this.#stop.signal)
  }

  /** @throws Error of the system, such as EADDRNOTAVAIL */
  static async open(options: DiscoveryResponderOptions): Promise<DiscoveryResponder> {
    const responder = new DiscoveryResponder(options)
    const { address } = options
    const family = isIPv6(address.replace(/%.*/, '')) ? 'IPv6' : 'IPv4'
    const via = family === 'IPv4' ? address : `::%${interfaceOf(address)}`
    const common = {
      family,
      port: DISCOVERY_PORT,
      shared: true,
      onDatagram: (datagram: Datagram) => responder.#onDatagram(datagram),
      onBroken: () => undefined,
    } as const
    try {
      responder.#sockets.push(await UdpSocket.open({ ...common, address, multicastInterface: via }))
      const group = groupOf(address)
      const listening = await UdpSocket.open({ ...common, address: group })
      responder.#sockets.push(listening)
      listening.join(DISCOVERY_GROUP[family], via)
      return responder
    } catch (error) {
      responder.close()
      throw error
    }
  }

  /** The number of Probes for cameras, without repetitions. */
  get probes(): number {
    return this.#probes
  }

  /**
   * Sends Hello. The promise resolves after the first datagram; repetitions follow by the
   * specification.
   */
  async hello(): Promise<void> {
    await this.#send(encodeHello(randomUUID(), this.#options.announcement()), MULTICAST)
  }

  /** Sends Bye, like {@link hello}. */
  async bye(): Promise<void> {
    await this.#send(encodeBye(randomUUID(), this.#options.announcement().uuid), MULTICAST)
  }

  close(): void {
    this.#stop.abort()
    for (const socket of this.#sockets) socket.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  #onDatagram({ bytes, address, port }: Datagram): void {
    let message: DiscoveryMessage
    try {
      message = decodeMessage(bytes)
    } catch (error) {
      if (OnvifMessageError.is(error)) return
      throw error
    }
    if (!this.#isConcernedBy(message) || this.#answered.includes(message.messageId)) return
    this.#answered.push(message.messageId)
    if (this.#answered.length > MAX_REMEMBERED) this.#answered.shift()
    if (message.kind === 'Probe') this.#probes++
    if (this.#options.faults.silent !== true)
      this.#ignoreErrorsOf(this.#answer(message, address, port))
  }

  #isConcernedBy(message: DiscoveryMessage): message is Question {
    if (message.kind === 'Probe') return message.types.every(isOfCamera)
    return message.kind === 'Resolve' && message.uuid === this.#options.announcement().uuid
  }

  async #answer({ kind, messageId }: Question, address: string, port: number): Promise<void> {
    const { announcement, faults } = this.#options
    await systemClock.sleep(faults.delayMs ?? Math.random() * MAX_DELAY_MS, this.#stop.signal)
    const camera = announcement()
    const match = {
      ...camera,
      ...(faults.huge && { scopes: [...camera.scopes, HUGE_SCOPE] }),
      ...(faults.withoutUrls && kind === 'Probe' && { xAddrs: [] }),
    }
    const relatesTo = faults.wrongRelatesTo ? `urn:uuid:${randomUUID()}` : messageId
    const answer =
      kind === 'Probe'
        ? encodeProbeMatches(randomUUID(), relatesTo, [match, ...(faults.furtherMatches ?? [])])
        : encodeResolveMatches(randomUUID(), relatesTo, match)
    const text = faults.rewrite?.(answer.toString()) ?? answer
    const whole = Buffer.concat([Buffer.from(text), Buffer.from(faults.tail ?? '', 'latin1')])
    await this.#send(faults.garbage ? whole.subarray(0, whole.length / 2) : whole, UNICAST, {
      address,
      port,
    })
  }

  async #send(
    bytes: Uint8Array,
    repeats: number,
    { address, port } = { address: groupOf(this.#options.address), port: DISCOVERY_PORT },
  ): Promise<void> {
    const send = () => this.#sockets[0]?.send(bytes, port, address)
    await send()
    this.#ignoreErrorsOf(
      (async () => {
        for (const delayMs of retransmissions(repeats)) {
          await systemClock.sleep(delayMs, this.#stop.signal)
          await send()
        }
      })(),
    )
  }

  /** Errors are ignored: the receiver may be gone, and a network may be down. */
  #ignoreErrorsOf(work: Promise<void>): void {
    work.catch(() => undefined)
  }
}

/** Many clients write prefixes that they do not declare. Cameras answer them. */
function isOfCamera({ namespace, local }: QualifiedName): boolean {
  const expected = NAMESPACE_OF[local]
  return expected !== undefined && (namespace ?? expected) === expected
}

const NAMESPACE_OF: Readonly<Record<string, string>> = {
  NetworkVideoTransmitter: 'http://www.onvif.org/ver10/network/wsdl',
  Device: 'http://www.onvif.org/ver10/device/wsdl',
}

function groupOf(address: string): string {
  return isIPv6(address.replace(/%.*/, ''))
    ? `${DISCOVERY_GROUP.IPv6}%${interfaceOf(address)}`
    : DISCOVERY_GROUP.IPv4
}

function interfaceOf(address: string): string {
  const [plain, zone] = address.split('%')
  if (zone !== undefined) return zone
  const found = Object.entries(os.networkInterfaces()).find(([, all]) =>
    all?.some(({ address }) => address === plain),
  )
  return found?.[0] ?? ''
}
