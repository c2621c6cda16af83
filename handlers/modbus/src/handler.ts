import { isIPv6 } from 'node:net'
import { currentClock, type Device, defineDiscoveryHandler, Presence } from '@akrijs/sdk'
import { inParallel, passesFilter } from '@akrijs/sdk/network'
import { type ModbusDetails, modbusDetails } from './details.js'
import type { Identification } from './message.js'
import { scan } from './scan.js'

/** From the end of a round to the next, in milliseconds. */
const REST_MS = 60_000
/** A unit that does not answer in three rounds in a row is gone. */
const MISSES_ALLOWED = 2
/** Addresses that are called at the same time. */
const MAX_AT_ONCE = 16
/** Units that a remark names. */
const MAX_NAMED = 3

/** A handler that finds Modbus TCP units. */
export function createModbusHandler() {
  /** The last scan of each address: Configurations that name the same address take turns. */
  const scans = new Map<string, Promise<void>>()

  async function inTurn(address: string, work: () => Promise<void>): Promise<void> {
    const turn = (scans.get(address) ?? Promise.resolve()).then(work)
    const ended = turn.catch(() => undefined)
    scans.set(address, ended)
    await turn.finally(() => {
      if (scans.get(address) === ended) scans.delete(address)
    })
  }

  return defineDiscoveryHandler({
    name: 'modbus',
    shared: true,
    details: modbusDetails,
    async *discover({ details, signal, leaveOut, remark }) {
      const { addresses, port } = details
      const clock = currentClock()
      const presence = new Presence({ missesAllowed: MISSES_ALLOWED })
      const last = new Map<string, Identification>()
      while (!signal.aborted) {
        const found: Device[] = []
        /** The ids of units by the reason. */
        const silent = new Map<string, string[]>()
        await inParallel(addresses, MAX_AT_ONCE, (address) => {
          const idOf = (unit: number) =>
            `${isIPv6(address) ? `[${address}]` : address}:${port}/${unit}`
          const options = {
            ...{ ...details, address, signal },
            found: (unit: number, said = last.get(idOf(unit)) ?? {}) => {
              last.set(idOf(unit), said)
              const place = { ADDRESS: address, PORT: String(port), UNIT: String(unit) }
              found.push(deviceOf({ ...place, ...said }, idOf(unit)))
            },
            silent: (unit: number, reason: string) =>
              silent.set(reason, [...(silent.get(reason) ?? []), idOf(unit)]),
          }
          return inTurn(address, () => scan(options))
        })
        const present = presence.round(found)
        const offered = present.filter((device) => {
          const excluded = excludedBy(device, details)
          if (excluded !== undefined) leaveOut(device.id, ...excluded)
          return excluded === undefined
        })
        if (present.length === 0)
          for (const [reason, ids] of silent)
            remark(`no Modbus answer from ${unitsText(ids)}: ${reason}`)
        yield offered
        await clock.sleep(REST_MS, signal, { ref: false }).catch(() => undefined)
      }
    },
  })
}

function unitsText(ids: readonly string[]): string {
  const named = ids.slice(0, MAX_NAMED).join(', ')
  return ids.length > MAX_NAMED ? `${named} and ${ids.length - MAX_NAMED} others` : named
}

function excludedBy(
  { properties = {} }: Device,
  { vendorNames, productCodes }: ModbusDetails,
): [reason: string, detail: string] | undefined {
  const { MODBUS_VENDOR_NAME: vendor, MODBUS_PRODUCT_CODE: product } = properties
  if (!passesFilter(vendorNames, vendor)) return ['filtered by vendorNames', vendor ?? '']
  if (!passesFilter(productCodes, product)) return ['filtered by productCodes', product ?? '']
  return undefined
}

function deviceOf(
  unit: Readonly<Record<'ADDRESS' | 'PORT' | 'UNIT', string>> & Identification,
  id: string,
): Device {
  const properties = Object.entries(unit).map(([name, value]) => [`MODBUS_${name}`, value])
  return { id, properties: Object.fromEntries(properties) }
}
