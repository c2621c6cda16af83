import { browse, FIRST_LIST_MS, MDNS_PORT } from '@akrijs/dns-sd'
import { type Clock, defineDiscoveryHandler, fitIntoList, systemClock } from '@akrijs/sdk'
import { atLeastEvery, MulticastSearch } from '@akrijs/sdk/network'
import { mdnsDetails } from './details.js'
import { serviceDevices } from './service-device.js'

/** How often the handler tells what it found, in milliseconds: remarks change without services. */
const INTERVAL_MS = 10_000

/** For tests. */
export interface MdnsHandlerOptions {
  /** @default systemClock */
  readonly clock?: Clock
}

/** A handler that finds services that announce themselves by multicast DNS (DNS-SD). */
export function createMdnsHandler(options: MdnsHandlerOptions = {}) {
  return mdnsHandlerOn(browse, options)
}

/** @param browseServices not an option: declarations of the package name no package inside it */
export function mdnsHandlerOn(
  browseServices: typeof browse,
  { clock = systemClock }: MdnsHandlerOptions,
) {
  return defineDiscoveryHandler({
    name: 'mdns',
    shared: true,
    details: mdnsDetails,
    async *discover({ details, signal, log, leaveOut, remark }) {
      const { services, interfaces } = details
      const messages = `mDNS queries for ${services.join(', ')} (UDP port ${MDNS_PORT})`
      const search = new MulticastSearch({
        messages,
        waitMs: FIRST_LIST_MS,
        only: interfaces,
        clock,
      })
      const lists = browseServices(services, {
        log,
        signal,
        clock,
        search,
        ...(interfaces && { interfaces }),
      })
      for await (const found of atLeastEvery(lists, INTERVAL_MS, { signal, clock })) {
        const { devices, leftOut } = serviceDevices(found, details)
        const list = fitIntoList(devices)
        for (const { id, reason, detail } of leftOut) leaveOut(id, reason, detail)
        const kept = new Set(list.devices.map(({ id }) => id))
        for (const { id } of devices) if (!kept.has(id)) leaveOut(id, 'device list full')
        if (devices.length === 0)
          for (const text of search.remarks(leftOut.length === 0)) remark(text)
        yield list.devices
      }
    },
  })
}
