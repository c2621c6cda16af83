import { holderOf, type Instance } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube'
import type { SlotUse } from './object-source.js'

export const SLOT_HEADER = ['SLOT', 'NODE', 'USED BY', 'SINCE'] as const

/** A row for each slot that is not free. */
export function slotRows(
  instances: readonly Instance[],
  uses: ReadonlyMap<ObjectKey, readonly SlotUse[]>,
): string[][] {
  return instances.flatMap((instance) => {
    const users = new Map(uses.get(keyOf(instance))?.map((use) => [use.slot, use]))
    return Object.entries(instance.spec.deviceUsage)
      .filter(([, usage]) => usage !== '')
      .map(([slot, usage]) => {
        const { user = '', since = '' } = users.get(slot) ?? {}
        // A node that has not reported yet, or a container that has not started.
        return [slot, holderOf(usage) ?? usage, user || 'not known yet', since]
      })
  })
}
