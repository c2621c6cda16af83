import { isIPv6 } from 'node:net'
import { currentClock, type Device, defineDiscoveryHandler, Presence } from '@akrijs/sdk'
import { inParallel, passesFilter } from '@akrijs/sdk/network'
import { snmpDetails } from './details.js'
import { readSystemGroup, SilentDevice, type SystemGroup } from './system-group.js'

/** From the end of a round to the next, in milliseconds. */
const REST_MS = 60_000
/** A device that does not answer in three rounds in a row is gone. */
const MISSES_ALLOWED = 2
/** Addresses that are asked at the same time. */
const MAX_AT_ONCE = 16
/** Addresses that a remark names. */
const MAX_NAMED = 3

/** For tests. */
export interface SnmpHandlerOptions {
  /** The time for an answer, in milliseconds. @default 4000 */
  readonly answerMs?: number
}

/** A handler that finds devices that speak SNMP. */
export function createSnmpHandler({ answerMs = 4000 }: SnmpHandlerOptions = {}) {
  return defineDiscoveryHandler({
    name: 'snmp',
    shared: true,
    details: snmpDetails,
    async *discover({ details, properties, signal, leaveOut, remark }) {
      const { addresses, port, objectIds } = details
      const clock = currentClock()
      const presence = new Presence({ missesAllowed: MISSES_ALLOWED })
      while (!signal.aborted) {
        const found: Device[] = []
        /** Addresses by the reason. */
        const silent = new Map<string, string[]>()
        await inParallel(addresses, MAX_AT_ONCE, async (address) => {
          try {
            const query = { ...details, address, properties, answerMs, signal }
            found.push(deviceOf(address, port, await readSystemGroup(query)))
          } catch (error) {
            if (!(error instanceof SilentDevice)) throw error
            silent.set(error.message, [...(silent.get(error.message) ?? []), address])
          }
        })
        const present = presence.round(found)
        const offered = present.filter(({ id, properties: { SNMP_OBJECT_ID = '' } = {} }) => {
          const passes = passesFilter(objectIds, prefixes(SNMP_OBJECT_ID))
          if (!passes) leaveOut(id, 'filtered by objectIds', SNMP_OBJECT_ID)
          return passes
        })
        if (present.length === 0)
          for (const [reason, of] of silent)
            remark(`no SNMP answer on UDP port ${port} from ${addressesText(of)}: ${reason}`)
        yield offered
        await clock.sleep(REST_MS, signal, { ref: false }).catch(() => undefined)
      }
    },
  })
}

/** An object id, and all that it is below: `1`, `1.3`, `1.3.6`. */
function prefixes(oid: string): string[] {
  const parts = oid.split('.')
  return parts.map((_, index) => parts.slice(0, index + 1).join('.'))
}

function addressesText(addresses: readonly string[]): string {
  const named = addresses.slice(0, MAX_NAMED).join(', ')
  const others = addresses.length - MAX_NAMED
  return others > 0 ? `${named} and ${others} others` : named
}

function deviceOf(address: string, port: number, group: SystemGroup): Device {
  const entries = Object.entries({ ADDRESS: address, PORT: String(port), ...group })
  return {
    id: `${isIPv6(address) ? `[${address}]` : address}:${port}`,
    properties: Object.fromEntries(entries.map(([name, value]) => [`SNMP_${name}`, value])),
  }
}
