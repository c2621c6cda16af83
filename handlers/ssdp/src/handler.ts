import { type Clock, defineDiscoveryHandler, deviceMap, systemClock } from '@akrijs/sdk'
import { atLeastEvery, MulticastSearch, searchMulticast } from '@akrijs/sdk/network'
import { readDescription } from './description.js'
import { ssdpDetails } from './details.js'
import { FoundDevices } from './found-devices.js'
import { MESSAGES } from './limits.js'
import { readAnnouncement, SSDP_GROUP, SSDP_PORT, searchMessage } from './message.js'

/** How long devices wait at most before they answer a search. */
const ANSWER_SECONDS = 2
/** From one search to the next, in milliseconds. */
const SEARCH_MS = 30_000
/** The networks that a search passes (UPnP Device Architecture 2.0, 1.3.2). */
const TTL = 2
/** The answers to the first search, and the descriptions, have arrived by then, in milliseconds. */
const FIRST_LIST_MS = ANSWER_SECONDS * 1000 + 3000
/** A device that does not answer three searches in a row is gone. */
const KEEP_MS = 3 * SEARCH_MS + ANSWER_SECONDS * 1000
/** How often the handler tells what it found, in milliseconds: remarks change without devices. */
const INTERVAL_MS = 10_000

/** For tests. */
export interface SsdpHandlerOptions {
  /** @default systemClock */
  readonly clock?: Clock
  /** Searches the networks. @default those of this machine */
  readonly search?: typeof searchMulticast
  /** Reads the description of a device. @default by HTTP */
  readonly read?: typeof readDescription
}

/** A handler that finds the devices of UPnP networks by SSDP. */
export function createSsdpHandler({
  clock = systemClock,
  search: searchNetworks = searchMulticast,
  read = readDescription,
}: SsdpHandlerOptions = {}) {
  return defineDiscoveryHandler({
    name: 'ssdp',
    shared: true,
    details: ssdpDetails,
    async *discover({ details, signal, log, leaveOut, remark }) {
      const { targets, interfaces } = details
      const messages = `SSDP searches for ${targets.join(', ')} (UDP port ${SSDP_PORT})`
      const waitMs = ANSWER_SECONDS * 1000
      const search = new MulticastSearch({
        ...{ messages, waitMs, only: interfaces, family: 'IPv4', clock },
      })
      const devices = deviceMap({ firstAfter: FIRST_LIST_MS, forgetAfter: KEEP_MS, clock })
      const found = new FoundDevices({
        ...{ details, devices, keepMs: KEEP_MS, read, signal, clock },
      })
      searchNetworks({
        ...{ group: SSDP_GROUP, port: SSDP_PORT, everyMs: SEARCH_MS, ttl: TTL, limit: MESSAGES },
        messages: targets.map((target) => searchMessage(target, ANSWER_SECONDS)),
        ...{ interfaces, search, log, signal, clock },
        onDatagram: (bytes, sender) => {
          const announcement = readAnnouncement(bytes)
          if (announcement !== undefined) found.take(announcement, sender)
        },
      }).catch((error: unknown) => devices.end(error))
      const lists = devices.lists({ signal })
      for await (const list of atLeastEvery(lists, INTERVAL_MS, { signal, clock })) {
        const filtered = found.filtered()
        for (const uuid of filtered) leaveOut(uuid, 'filtered by uuids')
        // No problems of devices: any machine can announce a device that keeps a Configuration from
        // being ready.
        for (const text of found.remarks()) remark(text)
        if (list.length === 0)
          for (const text of search.remarks(filtered.length === 0)) remark(text)
        yield list
      }
    },
  })
}
