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
} from '../testing/slot-reconciler-harness.js'
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

describe('lost claims of running containers', () => {
  const held = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' }
  const free = { [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' }
  const restored = [`${slot(0)} node-a`, `${slot(1)} C:7:node-a`]

  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.listed = new Map([...holds(slot(0)), ...holdsAny('7')])
  })

  /** The first reconcile, with all claims recorded. */
  async function started(): Promise<void> {
    node.put(held)
    node.run()
    await clock.advance(0)
    expect(node.asked).toBe(1)
  }

  it('R7 R84 are restored at once, at both levels, when freed by another program', async () => {
    await started()
    node.put(free)
    await clock.advance(0)
    expect(node.usage()).toEqual(held)
    expect(written.splice(0)).toEqual(restored)
    node.instances.remove(key)
    node.put({})
    // With a back-off the second time.
    await clock.advance(1000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' })
    expect(written.toSorted()).toEqual(restored)
  })

  it('R84 are restored once this node joins the Instance that another recreated', async () => {
    await started()
    node.instances.remove(key)
    node.put(free, { nodes: ['node-b' as NodeName] })
    await clock.advance(0)
    expect(node.usage()).toEqual(free)
    node.put(free, { nodes: ['node-b' as NodeName, 'node-a' as NodeName] })
    await clock.advance(0)
    expect(node.usage()).toEqual(held)
  })

  it('R84 are known before slots are offered, also from before a restart', async () => {
    node.put(free)
    ledger.record({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    await node.reconciler.begin(node.stop.signal)
    expect(ledger.claimsIn('cam-8120fe' as InstanceName)).toEqual({
      [slot(0)]: 'node-a',
      [slot(1)]: 'C:7:node-a',
    })
    expect(written).toEqual([])
  })

  it('delay the start by a second at most if the kubelet does not answer', async () => {
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

  it('cost no write and no extra reconcile if there are none', async () => {
    await started()
    for (const capacity of [4, 5, 6]) node.put(held, { capacity })
    await clock.advance(100_000)
    expect(written).toEqual([])
    // Every ten seconds.
    expect(node.asked).toBe(11)
  })

  it('R84 are known at the level of the Instance without any record', async () => {
    node.listed = holds(slot(0))
    node.put(free)
    node.run()
    await clock.advance(0)
    expect(node.usage()).toEqual({ ...free, [slot(0)]: 'node-a' })
  })

  it('are not guessed if no record tells the slot of an id: an Event reports it', async () => {
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

  it('R40 R91 are known from the annotations of containers, if they are listed', async () => {
    node.listed = new Map([
      ['akri.sh/cam', [{ pod, ids: new Set(['7']), slots: new Map([['7', slot(1)]]) }]],
    ])
    node.put(free)
    node.run()
    await clock.advance(0)
    expect(node.usage()).toEqual({ ...free, [slot(1)]: 'C:7:node-a' })
  })

  it('R7 are not restored if another node has claimed the slot: an Event reports it', async () => {
    await started()
    node.put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(60_000)
    expect(written).toEqual([])
    expect(events).toEqual([
      expect.stringMatching(
        /^Instance default\/cam-8120fe SlotUsedTwice: .*cam-8120fe-0.* node-b /,
      ),
    ])
    // The next conflict is reported again.
    node.put(held)
    await clock.advance(10_000)
    node.put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(10_000)
    expect(events).toHaveLength(2)
  })

  it.each<[string, Partial<Instance['spec']>, Record<string, string>, number]>([
    ['they are beyond the capacity', { capacity: 1 }, {}, 1],
    ['the Instance is full', { capacity: 2 }, { [slot(0)]: 'node-b', [slot(2)]: 'node-b' }, 3],
  ])(
    'A20 R7 are restored also if %s, and an Event reports a claim too many',
    async (_, more, others, held) => {
      await started()
      node.listed = holdsAny('7')
      ledger.remove({ slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) })
      node.put(others, more)
      await clock.advance(60_000)
      expect(node.usage()).toEqual({ ...others, [slot(1)]: 'C:7:node-a' })
      const reported = events.filter((each) => each.includes('BeyondCapacity'))
      expect(reported).toEqual(
        held > (more.capacity ?? 0) ? [expect.stringContaining(`${held} slots are held`)] : [],
      )
    },
  )

  it('R7 are restored at growing intervals if a program frees them again', async () => {
    await started()
    node.listed = holds(slot(0))
    ledger.remove({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    node.put({ ...free, [slot(0)]: 'node-a' })
    await clock.advance(0)
    node.instances.onChange(() => {
      if (node.usage()[slot(0)] !== '') queueMicrotask(() => node.put(free))
    }, node.stop.signal)
    node.put(free)
    await clock.advance(600_000)
    // At once, then after 1 s, 2 s, 4 s … 30 s, each shortened by up to half.
    expect(written.length).toBeGreaterThan(10)
    expect(written.length).toBeLessThan(50)
  })

  it('R84 replace a claim of this node that no container uses', async () => {
    await started()
    node.put({ ...held, [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    expect(node.usage()).toEqual(held)
    expect(events).toEqual([])
  })

  it('R90 are not restored for an ended or deleted Pod, even if it is listed', async () => {
    await started()
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

  it('R90 are released when their Pod ends after the restore', async () => {
    await started()
    node.put(free)
    await clock.advance(600)
    expect(node.usage()).toEqual(held)
    node.listed = new Map()
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual(free)
    expect(ledger.list()).toEqual([])
  })

  it('R90 are forgotten when their Pod ends while the Instance does not exist', async () => {
    await started()
    node.instances.remove(key)
    await clock.advance(10_000)
    expect(ledger.list()).toHaveLength(2)
    node.listed = new Map()
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect(ledger.list()).toEqual([])
  })

  it('wait until all Pods have been seen', async () => {
    node.synced = false
    node.put(held)
    node.run()
    await clock.advance(0)
    node.put(free)
    await clock.advance(0)
    expect(node.usage()).toEqual(free)
    node.synced = true
    await clock.advance(1000)
    expect(node.usage()).toEqual(held)
  })

  it('A2 are restored also if a restarted kubelet does not list them yet', async () => {
    await started()
    node.listed = new Map()
    node.instances.remove(key)
    await clock.advance(10_000)
    expect(Object.keys(ledger.claimsIn('cam-8120fe' as InstanceName))).toEqual([slot(0), slot(1)])
    node.put(free)
    await clock.advance(0)
    expect(node.usage()).toEqual(held)
  })

  it.each(['cluster', 'kubelet'])('are retried soon after a failure of the %s', async (which) => {
    await started()
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
  })
})
