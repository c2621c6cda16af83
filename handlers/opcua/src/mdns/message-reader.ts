import { type AllowedNetworks, type Datagram, isLinkLocal, SenderBudget } from '@akrijs/sdk/network'
import { type DnsName, type DnsRecord, decodeResponse, isResponse } from './dns-message.js'
import { MDNS_PORT } from './multicast-socket.js'
import { interfaceOf, type LocalInterface } from './networks.js'

/** What is read in a second, in datagrams of {@link DATAGRAM} bytes: longer ones count for several. */
const BUDGET = { perSender: 100, perSecond: 500 }
/** What Ethernet carries in one piece, in bytes. */
const DATAGRAM = 1500
/** How many addresses are judged in a second; more are left out, and asked for again where they are missing. */
const ADDRESSES = { perSender: 64, perSecond: 2000 }

export interface MessageReaderOptions {
  /** The type of services that is looked for. */
  readonly type: DnsName
  /** Only addresses in these are believed: nobody should be sent to others. @default the networks of the interface that a message came in on */
  readonly allowed?: AllowedNetworks | undefined
  /** A message was not read, because there are too many. */
  readonly onFlood: (sender: string) => void
}

export interface HeardMessage {
  /** The interface that it came in on. */
  readonly local: LocalInterface
  readonly sender: string
  readonly records: readonly DnsRecord[]
}

/** Reads what comes in by multicast: the cheap tests first, since anybody on the network can send anything. */
export class MessageReader {
  readonly #options: MessageReaderOptions
  readonly #budget = new SenderBudget(BUDGET)
  readonly #addresses = new SenderBudget(ADDRESSES)

  constructor(options: MessageReaderOptions) {
    this.#options = options
  }

  /**
   * Undefined where nothing is to be believed of a message.
   * @param now in milliseconds
   */
  read(
    message: Buffer,
    { address: sender, port }: Pick<Datagram, 'address' | 'port'>,
    interfaces: readonly LocalInterface[],
    now: number,
  ): HeardMessage | undefined {
    // RFC 6762, section 6: whoever answers does so from this port.
    if (port !== MDNS_PORT || !isResponse(message)) return undefined
    const amount = Math.ceil(message.length / DATAGRAM)
    if (!this.#budget.has(sender, amount, now)) {
      this.#options.onFlood(sender)
      return undefined
    }
    const local = interfaceOf(sender, interfaces)
    if (local === undefined) return undefined
    this.#budget.take(sender, amount, now)
    const { allowed = local.networks, type } = this.#options
    const records = (decodeResponse(message, type) ?? []).flatMap((record) => {
      if (record.type !== 'A' && record.type !== 'AAAA') return record
      if (!this.#addresses.take(sender, 1, now) || !allowed.allows(record.address)) return []
      // A link-local one is only one together with its interface.
      return isLinkLocal(record.address)
        ? { ...record, address: `${record.address}%${local.name}` }
        : record
    })
    return records.length === 0 ? undefined : { local, sender, records }
  }
}
