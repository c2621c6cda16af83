import type { Configuration, Instance, InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  holds,
  holdsAny,
  key,
  pod,
  SlotReconcilerHarness,
  slot,
} from '../../testing/slot-reconciler-harness.js'
import type { AllocationLedger } from './allocation-ledger.js'

let node: SlotReconcilerHarness
let clock: ManualClock
let ledger: AllocationLedger
let written: string[]
let events: string[]

beforeEach(() => {
  node = new SlotReconcilerHarness()
  ;({ clock, ledger, written, events } = node)
})

afterEach(async () => {
  await node.end()
  expect(clock.sleeping).toEqual([])
})

describe('slots that a container has and no Instance says so', () => {
  const held = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' }
  const free = { [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' }
  const claimedAgain = [`${slot(0)} node-a`, `${slot(1)} C:7:node-a`]

  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.listed = new Map([...holds(slot(0)), ...holdsAny('7')])
  })

  /** A first look, at what is right. */
  async function looked(): Promise<void> {
    node.put(held)
    node.run()
    await clock.advance(0)
    expect(node.asked).toBe(1)
  }

  it('R7 R84 are claimed again at once, of both levels, when somebody frees them or makes the Instance anew', async () => {
    await looked()
    node.put(free)
    await clock.advance(0)
    expect(node.usage()).toEqual(held)
    expect(written.splice(0)).toEqual(claimedAgain)
    node.instances.remove(key)
    node.put({})
    // Not quite at once a second time: somebody may be doing it for ever.
    await clock.advance(1000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' })
    expect(written.toSorted()).toEqual(claimedAgain)
  })

  it('R84 are claimed again as soon as this node is in the Instance that another one has made', async () => {
    await looked()
    node.instances.remove(key)
    node.put(free, { nodes: ['node-b' as NodeName] })
    await clock.advance(0)
    expect(node.usage()).toEqual(free)
    node.put(free, { nodes: ['node-b' as NodeName, 'node-a' as NodeName] })
    await clock.advance(0)
    expect(node.usage()).toEqual(held)
  })

  it('R84 are known before anything is offered, from the kubelet and from before a restart', async () => {
    node.put(free)
    ledger.record({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    await node.reconciler.begin(node.stop.signal)
    expect(ledger.claimsIn('cam-8120fe' as InstanceName)).toEqual({
      [slot(0)]: 'node-a',
      [slot(1)]: 'C:7:node-a',
    })
    expect(written).toEqual([])
  })

  it('do not keep anything waiting for a kubelet that does not answer', async () => {
    node.hanging = true
    let begun = false
    const beginning = node.reconciler.begin(node.stop.signal).then(() => {
      begun = true
    })
    await clock.advance(999)
    expect(begun).toBe(false)
    await clock.advance(1)
    await beginning
    expect(begun).toBe(true)
    node.hanging = false
    node.run()
    await clock.advance(0)
  })

  it('cost nothing while all is as it should be', async () => {
    await looked()
    for (const capacity of [4, 5, 6]) node.put(held, { capacity })
    await clock.advance(100_000)
    expect(written).toEqual([])
    // Once in ten seconds, as ever.
    expect(node.asked).toBe(11)
  })

  it('R84 are known at the level of the Instance even if nobody remembers them', async () => {
    node.listed = holds(slot(0))
    node.put(free)
    node.run()
    await clock.advance(0)
    expect(node.usage()).toEqual({ ...free, [slot(0)]: 'node-a' })
  })

  it('are not guessed where nobody knows what an id stands for: that is said, once', async () => {
    node.configurations.put({ metadata: { name: 'cam', namespace: 'default' } } as Configuration)
    node.listed = holdsAny('7')
    node.put(free)
    node.run()
    await clock.advance(60_000)
    expect(written).toEqual([])
    expect(events).toEqual([
      expect.stringMatching(/^Configuration default\/cam UnknownSlot: .*has 7 of akri.sh\/cam/),
    ])
  })

  it('R40 R91 are known by the annotations of containers, where those are asked', async () => {
    node.listed = new Map([
      ['akri.sh/cam', [{ pod, ids: new Set(['7']), slots: new Map([['7', slot(1)]]) }]],
    ])
    node.put(free)
    node.run()
    await clock.advance(0)
    expect(node.usage()).toEqual({ ...free, [slot(1)]: 'C:7:node-a' })
  })

  it('R7 are left to who has taken them meanwhile, and that is said, once', async () => {
    await looked()
    node.put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(60_000)
    expect(written).toEqual([])
    expect(events).toEqual([
      expect.stringMatching(
        /^Instance default\/cam-8120fe SlotUsedTwice: .*cam-8120fe-0.* node-b /,
      ),
    ])
    // It may happen again.
    node.put(held)
    await clock.advance(10_000)
    node.put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(10_000)
    expect(events).toHaveLength(2)
  })

  it.each<[string, Partial<Instance['spec']>, Record<string, string>, number]>([
    ['are beyond the capacity', { capacity: 1 }, {}, 1],
    [
      'others hold as many as there may be',
      { capacity: 2 },
      { [slot(0)]: 'node-b', [slot(2)]: 'node-b' },
      3,
    ],
  ])(
    'A20 R7 are claimed again also where they %s, so that nobody else is given one, and that is said',
    async (_, more, others, held) => {
      await looked()
      node.listed = holdsAny('7')
      ledger.remove({ slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) })
      node.put(others, more)
      await clock.advance(60_000)
      expect(node.usage()).toEqual({ ...others, [slot(1)]: 'C:7:node-a' })
      const said = events.filter((one) => one.includes('BeyondCapacity'))
      expect(said).toEqual(
        held > (more.capacity ?? 0) ? [expect.stringContaining(`${held} slots are held`)] : [],
      )
    },
  )

  it('R7 are claimed again at growing intervals where somebody frees them again and again', async () => {
    await looked()
    node.listed = holds(slot(0))
    ledger.remove({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    node.put({ ...free, [slot(0)]: 'node-a' })
    await clock.advance(0)
    node.instances.onChange(() => {
      if (node.usage()[slot(0)] !== '') queueMicrotask(() => node.put(free))
    }, node.stop.signal)
    node.put(free)
    await clock.advance(600_000)
    // At once, and then after 1 s, 2 s, 4 s … 30 s, or down to half of that.
    expect(written.length).toBeGreaterThan(10)
    expect(written.length).toBeLessThan(50)
  })

  it('R84 are theirs again where the Instance gave them to this node in another way', async () => {
    await looked()
    node.put({ ...held, [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    expect(node.usage()).toEqual(held)
    expect(events).toEqual([])
  })

  it("R90 are nobody's when their Pod has ended or gone, although the kubelet still lists it", async () => {
    await looked()
    node.ended.add(pod)
    node.put(free)
    await clock.advance(10_000)
    expect(node.usage()).toEqual(free)
    node.ended.clear()
    node.users?.clear()
    node.put(free)
    await clock.advance(10_000)
    expect(node.usage()).toEqual(free)
    expect(written).toEqual([])
  })

  it('R90 are free when their Pod ends after they were claimed again', async () => {
    await looked()
    node.put(free)
    await clock.advance(600)
    expect(node.usage()).toEqual(held)
    node.listed = new Map()
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual(free)
    // And nobody thinks of them any more.
    expect(ledger.list()).toEqual([])
  })

  it('R90 are forgotten when their Pod ends while there is no Instance', async () => {
    await looked()
    node.instances.remove(key)
    await clock.advance(10_000)
    expect(ledger.list()).toHaveLength(2)
    node.listed = new Map()
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect(ledger.list()).toEqual([])
  })

  it('wait until it is known which Pods there are', async () => {
    node.synced = false
    node.put(held)
    node.run()
    await clock.advance(0)
    node.put(free)
    await clock.advance(0)
    expect(node.usage()).toEqual(free)
    node.synced = true
    await clock.advance(250)
    expect(node.usage()).toEqual(held)
  })

  it('A2 are also those that a kubelet does not list which has just restarted, as long as their Pods are there', async () => {
    await looked()
    node.listed = new Map()
    node.instances.remove(key)
    await clock.advance(10_000)
    expect(Object.keys(ledger.claimsIn('cam-8120fe' as InstanceName))).toEqual([slot(0), slot(1)])
    node.put(free)
    await clock.advance(0)
    expect(node.usage()).toEqual(held)
  })

  it.each(['cluster', 'kubelet'])(
    'are tried again soon when the %s could not be asked',
    async (which) => {
      await looked()
      const before = node.listed
      if (which === 'cluster') node.failing = true
      else node.listed = undefined
      node.put(free)
      await clock.advance(500)
      expect(node.usage()).toEqual(free)
      node.failing = false
      node.listed = before
      await clock.advance(1000)
      expect(node.usage()).toEqual(held)
    },
  )
})
