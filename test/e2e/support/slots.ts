import { parseSlotUsage, slotNameParts } from '@akrijs/api'
import { expect } from 'vitest'
import { access, NODES } from './nodes.js'
import type { World } from './world.js'

/** The kubelets' allocations to existing Pods must equal the claims of the Instances. */
export async function checkSlots(world: World, where: string): Promise<void> {
  const pods = new Map((await world.pods()).map((pod) => [pod.metadata.name, pod]))
  const held = Object.entries(await world.usage()).filter(([, usage]) => usage !== '')
  const given: { slot: string; pod: string }[] = []
  for (const node of NODES) {
    for (const { resource, pod: key, ids } of await access.allocated(node)) {
      const [namespace, name = ''] = key.split('/')
      const phase = pods.get(name)?.status.phase
      if (namespace !== world.namespace || phase === 'Succeeded' || phase === 'Failed') continue
      expect(phase, `${where}: ${key} is given ${resource}, and is not there`).toBeDefined()
      for (const id of ids) {
        const slots = held.filter(([slot, text]) => {
          const usage = parseSlotUsage(text)
          if (usage.level === 'instance') return slot === id && usage.node === node
          return (
            usage.level === 'configuration' &&
            ofConfiguration(slot, resource) &&
            usage.virtualId === id &&
            usage.node === node
          )
        })
        expect(
          slots.length,
          `${where}: ${key} on ${node} has ${id} of ${resource}; held: ${JSON.stringify(held)}`,
        ).toBe(1)
        given.push({ slot: slots[0]?.[0] ?? '', pod: key })
      }
    }
  }
  const slots = given.map(({ slot }) => slot).sort()
  expect(new Set(slots).size, `${where}: a slot is given twice: ${JSON.stringify(given)}`).toBe(
    slots.length,
  )
  expect(held.map(([slot]) => slot).sort(), `${where}: held, without a container`).toEqual(slots)
}

/** Whether the slot belongs to a device of the Configuration with this resource. */
function ofConfiguration(slot: string, resource: string): boolean {
  return slotNameParts(slot)?.configuration === resource.replace('akri.sh/', '')
}
