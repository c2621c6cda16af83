import type { EndpointList } from './device-ageing.js'
import { DeviceSelection } from './device-selection.js'
import type { DiscoveredDevice } from './device-set.js'
import { deviceUnits } from './device-units.js'

/**
 * Lists take so many times the memory of the devices that can be served: several endpoints can list
 * the same devices while a handler is replaced.
 */
export const LISTS_PER_DEVICE = 2

/** Above all ranks of devices, and all copies of a device. */
const NOT_SERVED = 1_000_000
const COPY = 1000

/**
 * Makes the lists of a Configuration smaller. What is served stays, as its first endpoint describes
 * it. Then come the same devices in lists of other endpoints: first one more of each, and so on.
 * Those of open streams come first, because they show that a device is there. Then come devices
 * that are not served, in the order of the bounds.
 *
 * @param lists in the order in which their endpoints came
 * @param most in units; at least those of the devices that are served
 * @param served the devices that are served
 * @returns the lists that have changed
 */
export function trimLists(
  lists: readonly EndpointList[],
  most: number,
  served: ReadonlyMap<string, Pick<DiscoveredDevice, 'endpoint'>>,
  rankOf: (id: string, shared: boolean, units: number) => number,
): Map<EndpointList, EndpointList> {
  const selection = new DeviceSelection<object>(most)
  const copies = new Map<string, number>()
  const isLost = ({ lostSince }: EndpointList) => Number(lostSince !== undefined)
  const openFirst = lists.toSorted((a, b) => isLost(a) - isLost(b))
  for (const { endpoint, shared, devices = [] } of openFirst) {
    for (const device of devices) {
      const { id } = device
      const units = deviceUnits(device)
      let rank = NOT_SERVED + rankOf(id, shared, units)
      const describedBy = served.get(id)?.endpoint
      if (describedBy === endpoint) rank = 0
      else if (describedBy !== undefined) {
        const copy = (copies.get(id) ?? 0) + 1
        copies.set(id, copy)
        rank = copy * COPY
      }
      selection.add({ id, rank, units, value: device })
    }
  }
  const kept = new Set(selection.kept())
  const keptIds = new Set<string>()
  for (const { devices = [] } of lists)
    for (const device of devices) if (kept.has(device)) keptIds.add(device.id)

  const changed = new Map<EndpointList, EndpointList>()
  for (const list of lists) {
    const { devices, forgotten = 0 } = list
    const rest = devices?.filter((device) => kept.has(device))
    if (devices === undefined || rest === undefined || rest.length === devices.length) continue
    // A device counts once, and not at all while another list has it.
    const unknown = devices.filter(({ id }) => !keptIds.has(id))
    for (const { id } of unknown) keptIds.add(id)
    changed.set(list, { ...list, devices: rest, forgotten: forgotten + unknown.length })
  }
  return changed
}
