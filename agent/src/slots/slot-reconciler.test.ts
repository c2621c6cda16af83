import type { InstanceName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { servedWith } from '../testing/objects.js'
import {
  holds,
  holdsAny,
  key,
  pod,
  SlotReconcilerHarness,
  slot,
} from '../testing/slot-reconciler-harness.js'

let node: SlotReconcilerHarness
let clock: ManualClock

beforeEach(() => {
  node = new SlotReconcilerHarness()
  ;({ clock } = node)
})

afterEach(async () => {
  await node.end()
  expect(clock.sleeping).toEqual([])
})

describe('slots without a container, if Pods are not watched', () => {
  beforeEach(() => node.run())

  it('R90 R92 A14 are released after the grace period and no sooner, at both levels', async () => {
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(1000)
    // The machine's clock is set meanwhile.
    clock.set(86_400_000)
    await clock.advance(20_000 - 2000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(12_000)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' })
  })

  it('R90 leave out slots of a container or another node, and unreadable claims', async () => {
    node.listed = new Map([
      ['akri.sh/cam-8120fe', [{ pod, ids: new Set([slot(0)]) }]],
      ['akri.sh/cam', [{ pod, ids: new Set(['7']) }]],
    ])
    const held = {
      [slot(0)]: 'node-a',
      [slot(1)]: 'C:7:node-a',
      [slot(2)]: 'node-b',
      'cam-8120fe-3': 'C:x',
    }
    node.put(held)
    await clock.advance(120_000)
    expect(node.usage()).toEqual(held)
  })

  it('R92 have the whole grace period after a new claim', async () => {
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(19_000)
    await node.claim(slot(0))
    await clock.advance(19_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(12_000)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('are not released while the kubelet refuses', async () => {
    node.listed = undefined
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})

describe('slots that containers use', () => {
  it('are reported with the Pods, and are not once they are released', async () => {
    node.users = new Map([[pod, 1]])
    node.run()
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-b', [slot(2)]: '' })
    await clock.advance(10_000)
    expect(node.used).toEqual(new Map([[key, [{ slot: slot(0), pod, since: `start-of-${pod}` }]]]))
    node.listed = new Map()
    node.users.clear()
    node.podGone()
    await clock.advance(10_000)
    expect(node.used).toEqual(new Map())
  })
})

describe('slots without a container, if Pods are watched', () => {
  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.run()
  })

  it('R90 are released at once after the deletion of their Pod', async () => {
    node.listed = holds(slot(0))
    await node.claim(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    node.listed = new Map()
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('are looked for four times in a second at most while Pods go all the time', async () => {
    await clock.advance(0)
    const before = node.asked
    for (let count = 0; count < 1000; count++) {
      node.podGone()
      await clock.advance(20)
    }
    expect(node.asked - before).toBeGreaterThan(50)
    expect(node.asked - before).toBeLessThanOrEqual(50 + 4 * 20)
    await clock.advance(60_000)
    const calm = node.asked
    node.podGone()
    await clock.advance(0)
    expect(node.asked).toBe(calm + 1)
  })

  it('R90 are looked for every ten seconds, and each minute on a node without a slot', async () => {
    await clock.advance(0)
    node.asked = 0
    await clock.advance(180_000)
    expect(node.asked).toBe(3)
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(9999)
    expect(node.asked).toBe(3)
    await clock.advance(30_001)
    expect(node.asked).toBe(7)
  })

  it('R90 are logged to be looked for once a minute, and soon after a Pod has ended', async () => {
    const logged = () =>
      node.messages.filter((message) => message === 'reclaiming unused slots - start').length
    node.put({ [slot(0)]: 'node-a' })
    node.listed = holds(slot(0))
    await clock.advance(300_000)
    expect(logged()).toBe(6)
    await clock.advance(30_000)
    expect(logged()).toBe(6)
    for (let pods = 0; pods < 5; pods++) {
      node.podGone()
      await clock.advance(1)
    }
    expect(logged()).toBe(7)
    await clock.advance(10_000)
    expect(logged()).toBe(8)
    await clock.advance(55_000)
    expect(logged()).toBe(8)
  })

  it('R90 are reported once, also by concurrent reconciles', async () => {
    await clock.advance(0)
    node.put({ [slot(0)]: 'node-a' })
    node.users?.clear()
    await clock.advance(200)
    node.put({ [slot(0)]: 'node-a' })
    await Promise.all([node.reconcile(), node.reconcile()])
    expect(node.usage()).toEqual({ [slot(0)]: '' })
    expect(node.messages).toEqual(['reclaiming unused slots - start', 'slot reclaimed'])
  })

  it('R90 are released as soon as the kubelet forgets the Pod', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    node.users?.clear()
    node.podGone()
    await clock.advance(1500)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    node.listed = new Map()
    await clock.advance(300)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are released if the kubelet never listed their Pod', async () => {
    await node.claim(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    node.users?.clear()
    node.podGone()
    await clock.advance(50)
    // The claim may be for a Pod that the watch has not reported yet.
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(60)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 include those of a Pod that has ended and that the kubelet still lists', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    node.ended.add(pod)
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are kept while a Pod without an allocation requests the resource', async () => {
    await node.claim(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    node.podGone()
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    // The Pod got another slot: no Pod can have this slot.
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    node.listed = holds(slot(1))
    await clock.advance(10_000)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: 'node-a' })
  })

  it('R84 R92 are kept while a container of their Pod waits for its restart', async () => {
    node.users = new Map([[pod, 2]])
    node.listed = holds(slot(0), slot(1))
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    // The list of a container runtime.
    node.listed = holds(slot(0))
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    node.listed = new Map()
    node.users.clear()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: '' })
  })

  it('R84 R92 are kept for containers that have not started, and init containers', async () => {
    node.users = new Map([[pod, 2]])
    await node.claim(slot(0), slot(1))
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    // The init container has ended.
    node.users.set(pod, 1)
    await clock.advance(10_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: '' })
  })

  it('R90 R92 are released with their Pod while init containers of another run', async () => {
    const short = objectKey('default', 'short')
    node.users = new Map([
      [pod, 2],
      [short, 1],
    ])
    const ofShort = [{ pod: short, ids: new Set([slot(2)]) }]
    await node.claim(slot(0), slot(1), slot(2))
    node.put(Object.fromEntries([0, 1, 2].map((index) => [slot(index), 'node-a'])))
    await clock.advance(1000)
    // Init containers are not listed.
    node.listed = new Map([['akri.sh/cam-8120fe', ofShort]])
    node.podChanged('started')
    await clock.advance(0)
    node.listed = new Map()
    node.users.delete(short)
    node.podGone()
    await clock.advance(1000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a', [slot(2)]: '' })
  })

  it('R84 R92 are kept while a request is unanswered, however long it takes', async () => {
    node.users?.clear()
    let answer = () => {}
    node.onClaim = (which) => {
      if (which === slot(0)) return node.put({ [slot(0)]: 'node-a' })
      return new Promise((resolve) => {
        answer = resolve
      })
    }
    const request = node.claim(slot(0), slot(1))
    await clock.advance(30_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    answer()
    await request
    await clock.advance(50)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(2000)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R84 R92 do not get the Pod of an answer that is older than their claim', async () => {
    const allocation = { slot: slot(0), resourceName: 'akri.sh/cam', id: '7' }
    node.put({ [slot(0)]: 'C:7:node-a' })
    node.listed = holdsAny('7')
    // The kubelet gives the id to another container before its answer arrives.
    let answer = () => {}
    node.busy = new Promise<void>((resolve) => {
      answer = resolve
    })
    const reconciling = node.reconcile()
    node.ledger.record(allocation)
    await node.claim(slot(0))
    answer()
    await reconciling
    expect(node.ledger.usersOf(allocation)).toBeUndefined()
    await clock.advance(1)
    await node.reconcile()
    expect(node.ledger.usersOf(allocation)).toEqual(new Set([pod]))
  })

  it('R77 R90 are released after the deletion of their Pod, also if others wait', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(10_000)
    node.users = new Map([[objectKey('default', 'waits'), 1]])
    node.listed = new Map()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are released after the grace period if their Pod has another slot', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    node.listed = holds(slot(1))
    await clock.advance(19_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(20_000)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: 'node-a' })
  })

  it('A2 are kept if a restarted kubelet lists nothing while their Pods exist', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(10_000)
    node.listed = new Map()
    await clock.advance(60_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})

describe('a device that is gone', () => {
  const lost = { id: 'foo0', instance: 'cam-8120fe' as InstanceName }
  const allocated = { slot: slot(0), resourceName: 'akri.sh/cam', id: '7' }

  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.run()
  })

  it('is reported to the Pod that has it, as soon as the kubelet lists the Pod', async () => {
    node.ledger.record(allocated)
    node.listed = undefined
    node.lose(lost)
    await clock.advance(0)
    expect(node.events).toEqual([])
    node.listed = holdsAny('7')
    await clock.advance(10_000)
    expect(node.events).toEqual([
      `Pod ${pod} (uid-of-${pod}) DeviceLost: node-a no longer finds device "foo0" of Instance ` +
        'cam-8120fe, which the Pod has by akri.sh/cam',
    ])
    await clock.advance(60_000)
    expect(node.events).toHaveLength(1)
  })

  it('is reported to a Pod that the kubelet lists only later, and to each Pod once', async () => {
    const young = { slot: slot(1), resourceName: 'akri.sh/cam', id: '8' }
    const other = objectKey('default', 'other')
    node.users?.set(other, 1)
    node.ledger.record(allocated)
    node.ledger.recordUsers(allocated, new Set([pod]))
    node.ledger.record(young)
    node.listed = holdsAny('7')
    node.lose({ ...lost, id: undefined })
    await clock.advance(15_000)
    const event = (key: string) =>
      `Pod ${key} (uid-of-${key}) DeviceLost: node-a no longer finds the device of Instance ` +
      'cam-8120fe, which the Pod has by akri.sh/cam'
    expect(node.events).toEqual([event(pod)])
    node.ledger.recordUsers(young, new Set([other]))
    await clock.advance(60_000)
    expect(node.events).toEqual([event(pod), event(other)])
  })

  it('is reported to no Pod that is known only after the device is back', async () => {
    node.ledger.record(allocated)
    node.listed = undefined
    node.lose(lost)
    await clock.advance(10_000)
    node.book.serve(servedWith())
    node.listed = holdsAny('7')
    await clock.advance(20_000)
    expect(node.events).toEqual([])
  })

  it('is reported at once to a Pod that the kubelet has listed', async () => {
    node.ledger.record(allocated)
    node.listed = holdsAny('7')
    await clock.advance(10_000)
    node.lose(lost)
    await clock.advance(0)
    expect(node.events).toHaveLength(1)
  })

  it('is reported to no Pod that has ended, and without a Pod costs no question', async () => {
    await clock.advance(0)
    const asked = node.asked
    node.lose(lost)
    await clock.advance(0)
    expect(node.asked).toBe(asked)
    node.ledger.recordUsers(allocated, new Set([pod]))
    node.listed = holdsAny('7')
    node.ended.add(pod)
    node.lose(lost)
    await clock.advance(10_000)
    expect(node.events).toEqual([])
  })
})
