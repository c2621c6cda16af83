import type { IncompleteService, Service, ServiceList } from '@akrijs/dns-sd'
import type { ReportedDevice } from '@akrijs/sdk'
import type { OpcuaServer } from '../opcua-server.js'

/** The type of OPC UA servers (OPC 10000-12, annex C). */
export const SERVICE_TYPE = '_opcua-tcp._tcp'

/** A server or discovery server that announces itself by multicast DNS (OPC 10000-12, annex C). */
export interface MdnsServer extends OpcuaServer {
  /** The name in the announcement, for logs. */
  readonly name: string
  /** IPv4 first; link-local IPv6 last and with the interface, `fe80::1%eth0`. */
  readonly addresses: readonly string[]
  /** The capabilities of OPC 10000-12, annex D: `DA`, `HD`, `LDS`, … */
  readonly capabilities: readonly string[]
  /** Whether this is a discovery server: not a device, but FindServers lists its servers. */
  readonly isDiscoveryServer: boolean
}

/** OPC UA has some dozens of capabilities; a sender could announce any number. */
const MAX_CAPABILITIES = 64

/** The servers of a list, sorted by URL; those of one machine with the same URL are one. */
export function mdnsServers({ services }: ServiceList): MdnsServer[] {
  return machinesOf(services).machines.map(({ server }) => server)
}

/** The announced servers without a usable URL, or with the URL of another machine. */
export function unusableServers({ services, incomplete }: ServiceList): ReportedDevice[] {
  const unusable = services.filter((service) => mdnsServer(service) === undefined)
  return [
    ...[...incomplete, ...unusable].map(unusableServer),
    ...machinesOf(services).others.map(({ name, sender, interface: network }) => ({
      id: `${name} at ${sender}`,
      reason: 'same URL on another network',
      detail: `announced on ${network}`,
    })),
  ].sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** Undefined if the announcement contains no usable URL. */
export function mdnsServer(service: Service): MdnsServer | undefined {
  const { name, port, txt } = service
  const named = hostName(service.host)
  // Some servers (such as node-opcua) announce the same invalid host name on a network. The address
  // of the sender then identifies the server.
  const addresses =
    named !== undefined || !service.addresses.includes(service.sender)
      ? service.addresses
      : [service.sender]
  const host = named ?? addresses.filter((address) => !address.includes('%')).sort(byReach)[0]
  if (host === undefined || port === 0) return undefined
  const capabilities = capabilitiesFrom(txt.get('caps') ?? '')
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`
  return {
    name,
    discoveryUrl: `opc.tcp://${authority}${pathFrom(txt.get('path') ?? '')}`,
    addresses: [...addresses].sort(byReach),
    capabilities,
    isDiscoveryServer: capabilities.includes('LDS'),
  }
}

/** Why an announced server has no usable URL. */
export function unusableServer(service: Service | IncompleteService): ReportedDevice {
  const { name, sender, host } = service
  const id = `${name} at ${sender}`
  if (host === undefined)
    return { id, reason: 'no URL announced', detail: 'no host and port (SRV record)' }
  const shown = JSON.stringify(host)
  if (!('port' in service)) {
    const detail = `no address (A or AAAA record) of its host ${shown} in the allowed networks`
    return { id, reason: 'no address announced', detail }
  }
  const detail =
    service.port === 0 ? 'port 0' : `neither its host ${shown} nor its addresses fit into a URL`
  return { id, reason: 'no URL announced', detail }
}

interface Machine {
  readonly server: MdnsServer
  /** The interfaces on which it was heard. */
  readonly networks: ReadonlySet<string>
}

/**
 * Merges servers with the same URL: a server may be announced on several interfaces, and by its
 * discovery server as well. Host names are unique in a network only: machines with the name that
 * their maker gave them can be on two networks, and the first one counts. Servers and discovery
 * servers stay apart: any machine can announce the URL of another as that of a discovery server.
 */
function machinesOf(services: readonly Service[]) {
  const machines = new Map<string, Machine>()
  const others: Service[] = []
  for (const service of services) {
    const server = mdnsServer(service)
    if (server === undefined) continue
    const key = `${server.discoveryUrl} ${server.isDiscoveryServer}`
    const first = machines.get(key)
    const networks = new Set([...(first?.networks ?? []), service.interface])
    if (first === undefined) machines.set(key, { server, networks })
    else if (isSameMachine(first, server, service))
      machines.set(key, { server: union(first.server, server), networks })
    else others.push(service)
  }
  const sorted = [...machines].sort(([a], [b]) => (a < b ? -1 : 1))
  return { machines: sorted.map(([, machine]) => machine), others }
}

function isSameMachine(
  { server, networks }: Machine,
  { addresses }: MdnsServer,
  { interface: network }: Service,
): boolean {
  return networks.has(network) || addresses.some((address) => server.addresses.includes(address))
}

function union(a: MdnsServer, b: MdnsServer): MdnsServer {
  const capabilities = [...new Set([...a.capabilities, ...b.capabilities])].sort()
  return {
    ...(a.name <= b.name ? a : b),
    addresses: [...new Set([...a.addresses, ...b.addresses])].sort(byReach),
    capabilities,
  }
}

function hostName(text: string): string | undefined {
  const host = text.toLowerCase()
  return /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(host) ? host : undefined
}

/** A server without a path announces `/`. */
function pathFrom(text: string): string {
  return /^\/[A-Za-z0-9._~!$&'()*+,;=:@%/-]+$/.test(text) ? text : ''
}

function capabilitiesFrom(text: string): string[] {
  const identifiers = text.split(',').map((identifier) => identifier.trim())
  const valid = identifiers.filter((identifier) => /^[A-Za-z0-9_-]{1,32}$/.test(identifier))
  return [...new Set(valid)].slice(0, MAX_CAPABILITIES).sort()
}

function byReach(a: string, b: string): number {
  return reach(a) - reach(b) || (a < b ? -1 : 1)
}

function reach(address: string): number {
  if (!address.includes(':')) return 0
  return address.includes('%') ? 2 : 1
}
