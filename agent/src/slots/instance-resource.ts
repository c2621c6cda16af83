import { GROUP, type InstanceName, type SlotName, slotIndex } from '@akrijs/api'
import { AllocationRefusedError } from '../errors.js'
import type { AllocationLedger } from './allocation-ledger.js'
import type { AdvertisedDevice, PreferenceRequest, Resource } from './resource.js'
import type { InstanceSlots, SlotBook } from './slot-book.js'

/** The resource of one Instance: its ids are its slots. */
export function instanceResource(instance: InstanceName, book: SlotBook): Resource {
  const name = `${GROUP}/${instance}`
  return {
    level: 'instance',
    name,

    advertise() {
      const slots = book.of(instance)
      return slots === undefined ? [] : advertisedSlots(slots)
    },

    prefer(request) {
      const slots = book.of(instance)
      return slots === undefined ? [...request.mustInclude] : preferredSlots(slots, request)
    },

    choose(requests) {
      const slots = book.of(instance)
      if (slots === undefined)
        throw new AllocationRefusedError(`the device of Instance ${instance} was removed`)
      const offered = new Set<string>(slots.usable ? [...slots.free, ...slots.own] : [])
      return requests.map((ids) =>
        ids.map((id) => {
          const slot = id as SlotName
          if (!offered.has(slot))
            throw new AllocationRefusedError(refusal(id, slots, book.allocations))
          return { id, slot, instance: slots.served }
        }),
      )
    },
  }
}

/** Why a slot is not offered. */
function refusal(
  id: string,
  { served: { name, healthy }, state, slots }: InstanceSlots,
  allocations: AllocationLedger,
): string {
  const slot = id as SlotName
  const shown = JSON.stringify(id.slice(0, 200))
  if (slotIndex(name, id) === undefined) return `${shown} is not a slot of Instance ${name}`
  if (!healthy) return `the device of Instance ${name} is not available now`
  if (state === 'absent') return `there is no Instance ${name} yet`
  if (state === 'leaving') return `Instance ${name} is being deleted`
  const usage = slots.get(slot)
  if (usage === undefined)
    return `Instance ${name} has no slot ${shown}; its capacity is ${slots.size}`
  // The Instance may have lost the claim of a running container.
  const ours = allocations.claimsIn(name)[slot]
  if (ours !== undefined) return `a container of this node has slot ${id} already, by ${ours}`
  return `slot ${id} is taken${'node' in usage ? ` by node ${usage.node}` : ''}`
}

/**
 * The slots of an Instance. A slot is healthy if it can be claimed, or if this node has it through
 * the Instance's resource. While the Instance does not exist, as before it is created again, these
 * are the slots of running containers: the device is there, and the kubelet shows that in Pods.
 */
export function advertisedSlots({ served, slots, free, own }: InstanceSlots): AdvertisedDevice[] {
  const offered = new Set<string>(served.healthy ? [...free, ...own] : [])
  return Array.from(slots.keys(), (id) => ({ id, healthy: offered.has(id) }))
}

/**
 * The slots that the kubelet should choose: first those that it must include, then slots that this
 * node has claimed and no container uses, then free slots.
 */
export function preferredSlots(
  { free, own }: InstanceSlots,
  { available, mustInclude, size }: PreferenceRequest,
): string[] {
  const left = new Set(available)
  const chosen = new Set(mustInclude)
  for (const slot of [...own, ...free]) {
    if (chosen.size >= size) break
    if (left.has(slot)) chosen.add(slot)
  }
  return [...chosen]
}
