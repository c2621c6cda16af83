import type { Service, ServiceList } from '@akrijs/dns-sd'
import type { Device, ReportedDevice } from '@akrijs/sdk'
import { passesFilter } from '@akrijs/sdk/network'
import type { MdnsDetails } from './details.js'

/** The most pairs of a TXT record that containers get: a service announces a dozen. */
const MAX_TXT_PAIRS = 64

/** The devices of a list of services, and the services that are none. */
export function serviceDevices(
  { services, incomplete }: Pick<ServiceList, 'services' | 'incomplete'>,
  details: Pick<MdnsDetails, 'names' | 'txt'>,
): { readonly devices: Device[]; readonly leftOut: ReportedDevice[] } {
  const leftOut: ReportedDevice[] = incomplete.map(({ host, sender, ...service }) => ({
    id: idOf(service),
    reason: host === undefined ? 'no host announced' : 'no address announced',
    detail: `announced by ${sender} on ${service.interface}`,
  }))
  const offered = new Map<string, Service>()
  for (const service of services) {
    const id = idOf(service)
    const other = offered.get(id)
    const excluded = excludedBy(service, details)
    if (excluded !== undefined) leftOut.push({ id, ...excluded })
    else if (other === undefined) offered.set(id, service)
    else if (isSameMachine(other, service)) offered.set(id, withAddresses(other, service.addresses))
    else leftOut.push({ id, ...secondOf(other, service) })
  }
  return { devices: [...offered].map(([id, service]) => deviceOf(id, service)), leftOut }
}

/** The name of a service with its type, as RFC 6763 has it: `Mixer 1.2._http._tcp`. */
function idOf({ name, type }: Pick<Service, 'name' | 'type'>): string {
  return `${name}.${type}`
}

function excludedBy(
  { name, txt, port }: Service,
  { names, txt: txtFilters }: Pick<MdnsDetails, 'names' | 'txt'>,
): Pick<ReportedDevice, 'reason' | 'detail'> | undefined {
  if (/\p{Cc}/u.test(name)) return { reason: 'its name has control characters' }
  // RFC 6763, section 4.2: the name is taken, and there is no such service.
  if (port === 0) return { reason: 'port 0 announced' }
  if (!passesFilter(names, name)) return { reason: 'filtered by names' }
  const failed = txtFilters.find(({ key, values }) => !passesFilter(values, txt.get(key)))
  return (
    failed && { reason: 'filtered by txt', detail: `${failed.key}=${txt.get(failed.key) ?? ''}` }
  )
}

/**
 * Whether a service was heard twice, as on two interfaces in one network. Host names are unique in
 * a network only: machines with the name that their maker gave them can be on two networks.
 */
function isSameMachine(first: Service, { host, port, addresses }: Service): boolean {
  const isSame = first.host === host && first.port === port
  return isSame && addresses.some((address) => first.addresses.includes(address))
}

function withAddresses(service: Service, addresses: readonly string[]): Service {
  return { ...service, addresses: [...new Set([...service.addresses, ...addresses])] }
}

function secondOf(first: Service, { host, port, interface: network }: Service) {
  return {
    reason: 'same name on another network',
    detail: `${host}:${port} on ${network}, and ${first.host}:${first.port} on ${first.interface}`,
  }
}

function deviceOf(id: string, { name, type, host, port, addresses, txt }: Service): Device {
  // A link-local address (with %) works on one machine only.
  const reachable = addresses.filter((address) => !address.includes('%')).sort(ipv4First)
  const properties: Record<string, string | undefined> = {
    MDNS_SERVICE_NAME: name,
    MDNS_SERVICE_TYPE: type,
    MDNS_HOST: host,
    MDNS_PORT: String(port),
    // The DNS of a cluster cannot resolve the host.
    MDNS_ADDRESS: reachable[0],
    MDNS_ADDRESSES: reachable.join(','),
  }
  for (const [key, value] of [...txt].sort().slice(0, MAX_TXT_PAIRS)) {
    const property = `MDNS_TXT_${key.toUpperCase().replace(/[^A-Z0-9_]/g, '_')}`
    // Of keys that differ in such a character only, the first in order counts.
    if (!Object.hasOwn(properties, property)) properties[property] = value
  }
  return { id, properties }
}

function ipv4First(a: string, b: string): number {
  return Number(a.includes(':')) - Number(b.includes(':')) || (a < b ? -1 : 1)
}
