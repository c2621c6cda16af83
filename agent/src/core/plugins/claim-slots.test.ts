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

it('R68 a failed request releases its claims together, with their directories', async () => {
  const releasing: SlotName[] = []
  const discarded: SlotName[] = []
  let onAll = () => {}
  const all = new Promise<void>((resolve) => {
    onAll = resolve
  })
  const options = {
    cluster: {
      claimSlot: async () => ({ outcome: 'claimed' }) as const,
      releaseSlot: async (_: unknown, released: SlotName) => {
        if (releasing.push(released) === 3) onAll()
        await all
        return 'released' as const
      },
    },
    observer: noopObserver,
    directories: {
      prepare: () => {},
      discard: (_: unknown, unused: SlotName) => void discarded.push(unused),
      open: async () => undefined,
    },
    level: 'configuration' as const,
  }
  const request = new SlotClaims(new ManualClock()).forRequest((claims) =>
    claimAllOrNone({ ...options, claims }, async (claim) => {
      for (const index of [0, 1, 2]) {
        const target = { instance, slot: `cam-8120fe-${index}` as SlotName, device: 'a' }
        await claim({ ...target, usage: `C:${index}:node-a` })
      }
      throw new TypeError('no slot is left')
    }),
  )
  await expect(request).rejects.toThrow('no slot is left')
  expect(releasing).toEqual(['cam-8120fe-0', 'cam-8120fe-1', 'cam-8120fe-2'])
  expect(discarded).toEqual(releasing)
})
