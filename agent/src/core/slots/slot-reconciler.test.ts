import { objectKey } from '@akrijs/kube/objects'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  holds,
  holdsAny,
  pod,
  SlotReconcilerHarness,
  slot,
} from '../../testing/slot-reconciler-harness.js'

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

describe('slots that nobody uses, where nobody watches Pods', () => {
  beforeEach(() => node.run())

  it('R90 R92 A14 are taken back after the grace period, of both levels, and no sooner', async () => {
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(1000)
    // Somebody sets the machine's clock meanwhile.
    clock.set(86_400_000)
    await clock.advance(20_000 - 2000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(12_000)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' })
  })

  it('R90 are not those that a container has, of another node, or of a form that nobody knows', async () => {
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

  it('R92 give a slot that is claimed again the whole grace, though it was unused before', async () => {
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(19_000)
    await node.claim(slot(0))
    await clock.advance(19_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(12_000)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('are not known while the kubelet cannot be asked', async () => {
    node.listed = undefined
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})

describe('slots that nobody uses, where somebody watches Pods', () => {
  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.run()
  })

  it('R90 are free at once when their Pod went', async () => {
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

  it('R90 are said to be reclaimed once, though several looks find them at the same time', async () => {
    await clock.advance(0)
    node.put({ [slot(0)]: 'node-a' })
    node.users?.clear()
    await clock.advance(200)
    node.put({ [slot(0)]: 'node-a' })
    await Promise.all([node.reconcile(), node.reconcile()])
    expect(node.usage()).toEqual({ [slot(0)]: '' })
    expect(node.said).toEqual(['slot reclaimed'])
  })

  it('R90 are free soon after, where the kubelet takes a while to forget the Pod', async () => {
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

  it('R90 are free when their Pod came and went before the kubelet listed it', async () => {
    await node.claim(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    node.users?.clear()
    node.podGone()
    await clock.advance(50)
    // It may be a claim for a Pod that has not been heard of yet.
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(60)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are those of a Pod that has ended, although the kubelet still lists it', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    node.ended.add(pod)
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are none while a Pod that asks for them has not been given any, however long its image takes', async () => {
    await node.claim(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    node.podGone()
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    // It was given another one: this is nobody's.
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    node.listed = holds(slot(1))
    await clock.advance(10_000)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: 'node-a' })
  })

  it('R84 R92 are none of a container that waits to be started again, beside another one of its Pod', async () => {
    node.users = new Map([[pod, 2]])
    node.listed = holds(slot(0), slot(1))
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    // As a container runtime tells it.
    node.listed = holds(slot(0))
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    node.listed = new Map()
    node.users.clear()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: '' })
  })

  it('R84 R92 are none of a container that has not been started yet, or of an init container that nobody lists', async () => {
    node.users = new Map([[pod, 2]])
    await node.claim(slot(0), slot(1))
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(600_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    // The init container has node.ended.
    node.users.set(pod, 1)
    await clock.advance(10_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: '' })
  })

  it('R84 R92 are none of a request that has not been answered, however long the API server takes', async () => {
    node.users?.clear()
    let answer = () => {}
    const request = node.claims.forRequest(async ({ claim }) => {
      await claim(slot(0), async () => node.put({ [slot(0)]: 'node-a' }))
      await claim(
        slot(1),
        () =>
          new Promise<void>((resolve) => {
            answer = resolve
          }),
      )
    })
    await clock.advance(30_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    answer()
    await request
    await clock.advance(50)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(2000)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R84 R92 are not of the Pod in an answer that is older than their claim', async () => {
    const allocation = { slot: slot(0), resourceName: 'akri.sh/cam', id: '7' }
    node.put({ [slot(0)]: 'C:7:node-a' })
    node.listed = holdsAny('7')
    const reconciling = node.reconcile()
    // The kubelet gives the id to another container before its answer arrives.
    node.ledger.record(allocation)
    await node.claim(slot(0))
    await reconciling
    expect(node.ledger.usersOf(allocation)).toBeUndefined()
    await clock.advance(1)
    await node.reconcile()
    expect(node.ledger.usersOf(allocation)).toEqual(new Set([pod]))
  })

  it('R77 R90 are those of a Pod that went, although another one still waits for its containers', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(10_000)
    node.users = new Map([[objectKey('default', 'waits'), 1]])
    node.listed = new Map()
    node.podGone()
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are those that their Pod does not have any more, after the grace period', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    node.listed = holds(slot(1))
    await clock.advance(19_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(20_000)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: 'node-a' })
  })

  it('A2 are none when a kubelet that has just restarted lists nothing, while their Pods are there', async () => {
    node.listed = holds(slot(0))
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(10_000)
    node.listed = new Map()
    await clock.advance(60_000)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})
