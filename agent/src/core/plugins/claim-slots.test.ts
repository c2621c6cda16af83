import type { SlotName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import type { SlotClaim } from '../../ports/cluster.js'
import { noopObserver } from '../../ports/observer.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { claimAllOrNone } from './claim-slots.js'

const instance = objectKey('default', 'cam-8120fe')
const slot = 'cam-8120fe-0' as SlotName

it.each<[string, () => Promise<SlotClaim>, string[]]>([
  ['of a free slot', async () => ({ outcome: 'claimed' }), ['prepare']],
  [
    'of a slot that this node has claimed before',
    async () => ({ outcome: 'taken', by: 'node-a' }),
    ['prepare'],
  ],
  [
    'of a slot that another node claimed first',
    async () => ({ outcome: 'taken', by: 'node-b' }),
    ['prepare', 'discard'],
  ],
  ['of a slot that does not exist', async () => ({ outcome: 'gone' }), ['prepare', 'discard']],
  ['that fails', () => Promise.reject(new TypeError('no answer')), ['prepare', 'discard']],
])(
  'R68 a claim %s prepares the directory, and keeps it only with the slot',
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
      cluster: { claimSlot: claimed, releaseSlot: async () => 'released' as const },
      observer: noopObserver,
      directories,
      level: 'instance' as const,
    }
    const result = await new SlotClaims(new ManualClock())
      .forRequest((claims) =>
        claimAllOrNone({ ...options, claims }, (claim) =>
          claim({ instance, slot, usage: 'node-a', device: 'a' }),
        ),
      )
      .catch(() => undefined)
    expect(result?.held ?? false).toBe(calls.length === 1)
    expect(called).toEqual(calls)
  },
)
