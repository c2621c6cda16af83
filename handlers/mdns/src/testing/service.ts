import type { Service } from '@akrijs/dns-sd'

/** A printer on the network of eth0. */
export const service = (more: Partial<Service> = {}): Service => ({
  type: '_ipp._tcp',
  name: 'Hall 1',
  interface: 'eth0',
  host: 'printer.local',
  port: 631,
  txt: new Map(),
  addresses: ['192.0.2.7'],
  sender: '192.0.2.7',
  ...more,
})
