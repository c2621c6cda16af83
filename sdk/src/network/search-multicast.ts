import type { Clock, Logger } from '@akrijs/runtime'
import { plainAddress } from './addresses.js'
import { AllowedNetworks } from './allowed-networks.js'
import { machineAddresses, machineInterfaces, machineNetworks } from './machine-interfaces.js'
import type { MulticastSearch } from './multicast-search.js'
import { SourceLimit, type SourceLimitOptions } from './source-limit.js'
import { UdpSocket } from './udp-socket.js'

/** Options of {@link searchMulticast}. */
export interface SearchMulticastOptions {
  /** The multicast group, an IPv4 address such as `239.255.255.250`. */
  readonly group: string
  /** The port to which searches go, and at which announcements arrive. */
  readonly port: number
  /** The searches. Each is sent twice, because datagrams get lost. */
  readonly messages: readonly Uint8Array[]
  /** From one search to the next, in milliseconds. */
  readonly everyMs: number
  /** The number of networks that a search passes. @default 1 */
  readonly ttl?: number
  /**
   * Names of interfaces.
   * @default all but the loopback interface and the interfaces of container networks
   */
  readonly interfaces?: readonly string[] | undefined
  /** The datagrams that are read: any machine can send any number. */
  readonly limit: SourceLimitOptions
  /** Gets where searches were sent, and the errors, for the remarks of the handler. */
  readonly search: MulticastSearch
  /** Takes each datagram from the networks of these interfaces. */
  readonly onDatagram: (bytes: Buffer, sender: string) => void
  /** The logger of the discovery. */
  readonly log: Logger
  /** Ends the search. */
  readonly signal: AbortSignal
  /** The clock of the handler. */
  readonly clock: Clock
}

/** The interval between reads of the interfaces. A search begins at once on a new one. */
const INTERFACES_MS = 5000

/**
 * Searches all networks of this machine again and again, and hears what devices answer, and
 * announce by themselves. Ends with its signal.
 *
 * @example
 * const clock = currentClock()
 * const found = deviceMap({ forgetAfter: '40s' })
 * const search = new MulticastSearch({ messages: 'searches (UDP 1900)', waitMs: 2000, clock })
 * searchMulticast({
 *   ...{ group: '239.255.255.250', port: 1900, messages: [message], everyMs: 10_000 },
 *   ...{ search, log, signal, clock, limit: { perSource: 50, perSecond: 500 } },
 *   onDatagram: (bytes, sender) => found.set({ id: sender }),
 * }).catch((error) => found.end(error))
 * yield* found.lists({ signal })
 */
export async function searchMulticast(options: SearchMulticastOptions): Promise<void> {
  const { group, port, interfaces: only, search, log, signal, clock } = options
  const limit = new SourceLimit(options.limit)
  /** By the address of this machine, which they send from. */
  const sockets = new Map<string, UdpSocket>()
  let listener: UdpSocket | undefined
  let allowed = new AllowedNetworks([])

  const onDatagram: Parameters<typeof UdpSocket.open>[0]['onDatagram'] = ({ bytes, address }) => {
    const sender = plainAddress(address)
    // First, so that other networks, and the searches of this machine, leave the limit to devices.
    if (!allowed.allows(sender)) search.ignored(sender)
    else if (limit.take(sender, 1, clock.monotonicMs())) options.onDatagram(bytes, sender)
  }
  const listen = async (name: string, address: string) => {
    try {
      listener ??= await UdpSocket.open({
        ...{ family: 'IPv4', address: '0.0.0.0', port, shared: true, onDatagram },
        onBroken: (error) => {
          log.warn({ port, err: error }, 'multicast socket failed')
          listener = undefined
        },
      })
      listener.join(group, address)
    } catch (error) {
      // Devices answer searches all the same.
      log.debug({ interface: name, port, err: error }, 'multicast group not joined')
    }
  }
  const send = async (name: string, address: string) => {
    const place = { interface: name, address }
    try {
      let socket = sockets.get(address)
      if (socket === undefined) {
        socket = await UdpSocket.open({
          ...{ family: 'IPv4', address, multicastInterface: address, onDatagram },
          multicastTtl: options.ttl ?? 1,
          onBroken: () => sockets.delete(address),
        })
        sockets.set(address, socket)
      }
      for (const message of [...options.messages, ...options.messages])
        await socket.send(message, port, group)
      search.sent(place)
    } catch (error) {
      search.failed(place, error)
    }
  }

  try {
    for (let searchAt = 0; !signal.aborted; ) {
      const places = machineInterfaces({ only }).flatMap(({ name, addresses }) =>
        addresses.flatMap(({ family, address }) => (family === 'IPv4' ? [{ name, address }] : [])),
      )
      allowed = new AllowedNetworks(machineNetworks({ only }), { ownAddresses: machineAddresses() })
      search.keep(places.map(({ name, address }) => ({ interface: name, address })))
      for (const [address, socket] of sockets)
        if (!places.some((place) => place.address === address)) {
          sockets.delete(address)
          socket.close()
        }
      const isDue = searchAt <= clock.monotonicMs()
      if (isDue) searchAt = clock.monotonicMs() + options.everyMs
      for (const { name, address } of places) {
        await listen(name, address)
        if (isDue || !sockets.has(address)) await send(name, address)
      }
      await clock.sleep(INTERFACES_MS, signal).catch(() => undefined)
    }
  } finally {
    for (const socket of sockets.values()) socket.close()
    listener?.close()
  }
}
