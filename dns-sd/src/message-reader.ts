import { type AllowedNetworks, type Datagram, isLinkLocal, SourceLimit } from '@akrijs/sdk/network'
import { decodeResponse, isResponse } from './dns-decoder.js'
import type { DnsName, DnsRecord } from './dns-message.js'
import { MAX_ADDRESSES, MESSAGES, MESSAGES_PER_SERVICE } from './limits.js'
import { MDNS_PORT } from './multicast-socket.js'
import { interfaceOf, type LocalInterface } from './networks.js'

/** The payload of an Ethernet frame, in bytes. */
const DATAGRAM = 1500

interface MessageReaderOptions {
  /** The types of the services to find. */
  readonly types: readonly DnsName[]
  /**
   * The networks of acceptable addresses: a sender must not direct the handler elsewhere. @default
   * the networks of the interface that received the message
   */
  readonly allowed?: AllowedNetworks | undefined
  /** The number of services that a sender has announced. @default 0 */
  readonly servicesOf?: (sender: string) => number
  /** Called for a message over the limit. */
  readonly onFlood: (sender: string) => void
  /** Called for a response from an address outside of the networks of this machine. */
  readonly onStranger?: (sender: string) => void
}

interface ReceivedMessage {
  /** The interface that received the message. */
  readonly local: LocalInterface
  readonly sender: string
  readonly records: readonly DnsRecord[]
}

/** Reads multicast messages. Cheap checks come first, since any machine can send any message. */
export class MessageReader {
  readonly #options: MessageReaderOptions
  readonly #limit: SourceLimit

  constructor(options: MessageReaderOptions) {
    this.#options = options
    const { servicesOf = () => 0 } = options
    this.#limit = new SourceLimit({
      ...MESSAGES,
      reservedFor: (sender) => MESSAGES_PER_SERVICE * servicesOf(sender),
    })
  }

  /**
   * Undefined if the message contains no acceptable record.
   * @param now in milliseconds
   */
  read(
    message: Buffer,
    { address: sender, port }: Pick<Datagram, 'address' | 'port'>,
    interfaces: readonly LocalInterface[],
    now: number,
  ): ReceivedMessage | undefined {
    // RFC 6762, section 6: responses come from this port.
    if (port !== MDNS_PORT || !isResponse(message)) return undefined
    const local = interfaceOf(sender, interfaces)
    if (local === undefined) {
      if (isAbout(message, this.#options.types)) this.#options.onStranger?.(sender)
      return undefined
    }
    if (!this.#limit.take(sender, Math.ceil(message.length / DATAGRAM), now)) {
      this.#options.onFlood(sender)
      return undefined
    }
    const { allowed = local.networks, types } = this.#options
    let addresses = 0
    const records = (decodeResponse(message, types) ?? []).flatMap((record) => {
      if (record.type !== 'A' && record.type !== 'AAAA') return record
      if (++addresses > MAX_ADDRESSES || !allowed.allows(record.address)) return []
      // A link-local address needs its interface.
      return isLinkLocal(record.address)
        ? { ...record, address: `${record.address}%${local.name}` }
        : record
    })
    return records.length === 0 ? undefined : { local, sender, records }
  }
}

/** Whether a message has the first label of a type. Cheaper than a decoder during a flood. */
function isAbout(message: Buffer, types: readonly DnsName[]): boolean {
  const start = message.subarray(0, DATAGRAM)
  return types.some(([label = '']) => start.includes(label))
}
