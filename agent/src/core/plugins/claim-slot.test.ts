import type { SlotName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import type { SlotClaim } from '../../ports/cluster.js'
import { noopObserver } from '../../ports/observer.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { claimSlot } from './claim-slot.js'

const instance = objectKey('default', 'cam-8120fe')
const slot = 'cam-8120fe-0' as SlotName

it.each<[string, () => Promise<SlotClaim>, string[]]>([
  ['of a slot that is free now', async () => ({ outcome: 'claimed' }), ['prepare']],
  [
    'of a slot that this node has by it already',
    async () => ({ outcome: 'taken', by: 'node-a' }),
    ['prepare'],
  ],
  [
    'of a slot that another node was faster with',
    async () => ({ outcome: 'taken', by: 'node-b' }),
    ['prepare', 'discard'],
  ],
  ['of a slot that is gone', async () => ({ outcome: 'gone' }), ['prepare', 'discard']],
  ['that cannot be made', () => Promise.reject(new TypeError('no answer')), ['prepare', 'discard']],
])(
  'R68 a claim %s has its directory made meanwhile, and keeps it only with the slot',
  async (_, answer, calls) => {
    const called: string[] = []
    const directories = {
      prepare: () => void called.push('prepare'),
      discard: () => void called.push('discard'),
      open: async () => undefined,
    }
    const claimed = async () => {
      expect(called).toEqual(['prepare'])
      return answer()
    }
    const options = {
      cluster: { claimSlot: claimed },
      observer: noopObserver,
      directories,
    }
    const result = await new SlotClaims(new ManualClock())
      .forRequest((claims) =>
        claimSlot({ ...options, claims }, { level: 'instance', instance, slot, usage: 'node-a' }),
      )
      .catch(() => undefined)
    expect(result?.held ?? false).toBe(calls.length === 1)
    expect(called).toEqual(calls)
  },
)
