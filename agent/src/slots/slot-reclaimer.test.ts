import {
  API_VERSION,
  type ConfigurationName,
  type Instance,
  type InstanceName,
  type NodeName,
  type ObjectKey,
  objectKey,
  type SlotName,
} from '@akrijs/kube'
import { silentLogger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { KubeletUnavailableError } from '../errors.js'
import type { NodePods } from '../ports/kubelet.js'
import { ObjectStore } from '../standalone/object-store.js'
import { SlotClaims } from './slot-claims.js'
import { SlotReclaimer } from './slot-reclaimer.js'

const key = objectKey('default', 'cam-8120fe')
const slot = (index: number) => `cam-8120fe-${index}` as SlotName

let clock: ManualClock
let instances: ObjectStore<Instance>
let listed: Map<string, { pod: ObjectKey; ids: Set<string> }[]> | undefined
/** The Pods that ask for `akri.sh/cam-8120fe`; undefined where nobody watches Pods. */
let users: Set<ObjectKey> | undefined
let ended: Set<ObjectKey>
let claims: SlotClaims
let podGone: () => void
let stop: AbortController
let run: () => void
let ran: Promise<void> | undefined
const pod = objectKey('default', 'pod')
const holds = (...ids: string[]) => new Map([['akri.sh/cam-8120fe', [{ pod, ids: new Set(ids) }]]])

function put(deviceUsage: Record<string, string>): void {
  instances.put({
    apiVersion: API_VERSION,
    kind: 'Instance',
    metadata: {
      name: 'cam-8120fe' as InstanceName,
      namespace: 'default',
      uid: 'i',
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: '',
    },
    spec: {
      configurationName: 'cam' as ConfigurationName,
      cdiName: '',
      capacity: 3,
      brokerProperties: {},
      shared: true,
      nodes: ['node-a' as NodeName],
      deviceUsage,
    },
  })
}

const usage = () => instances.get(key)?.spec.deviceUsage ?? {}

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  instances = new ObjectStore()
  listed = new Map()
  users = undefined
  ended = new Set()
  claims = new SlotClaims(clock)
  ran = undefined
  podGone = () => {}
  stop = new AbortController()
  const reclaimer = new SlotReclaimer({
    clock,
    log: silentLogger,
    node: 'node-a' as NodeName,
    claims,
    cluster: {
      instances,
      releaseSlot: async (_key, which, held) => {
        if (usage()[which] !== held) return 'changed'
        put({ ...usage(), [which]: '' })
        return 'released'
      },
    },
    kubelet: {
      listAllocated: async () => {
        if (listed === undefined) throw new KubeletUnavailableError('away')
        return listed
      },
      get pods(): NodePods | undefined {
        if (users === undefined) return undefined
        return {
          synced: true,
          lagMs: 100,
          users: (resource) => new Set(resource === 'akri.sh/cam-8120fe' ? users : []),
          hasEnded: (one) => ended.has(one),
          onGone: (listener) => {
            podGone = listener
          },
        }
      },
    },
  })
  run = () => {
    ran = reclaimer.run(stop.signal)
  }
})

afterEach(async () => {
  stop.abort()
  await ran
  expect(clock.sleeping).toEqual([])
})

describe('slots that nobody uses, where nobody watches Pods', () => {
  beforeEach(() => run())

  it('R90 R92 A14 are taken back after the grace period, of both levels, and no sooner', async () => {
    put({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(20_000 - 1000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(12_000)
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' })
  })

  it('R90 are not those that a container has, of another node, or of a form that nobody knows', async () => {
    listed = new Map([
      ['akri.sh/cam-8120fe', [{ pod, ids: new Set([slot(0)]) }]],
      ['akri.sh/cam', [{ pod, ids: new Set(['7']) }]],
    ])
    const held = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: 'node-b', 'cam-8120fe-3': 'C:x' }
    put(held)
    await clock.advance(120_000)
    expect(usage()).toEqual(held)
  })

  it('R92 give a slot that is claimed again the whole grace, though it was unused before', async () => {
    put({ [slot(0)]: 'node-a' })
    await clock.advance(19_000)
    await claims.claim(slot(0), async () => undefined)
    await clock.advance(19_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(12_000)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('are not known while the kubelet cannot be asked', async () => {
    listed = undefined
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})

describe('slots that nobody uses, where somebody watches Pods', () => {
  beforeEach(() => {
    users = new Set([pod])
    run()
  })

  it('R90 are free at once when their Pod went', async () => {
    listed = holds(slot(0))
    await claims.claim(slot(0), async () => undefined)
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    listed = new Map()
    users?.clear()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are free soon after, where the kubelet takes a while to forget the Pod', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    users?.clear()
    podGone()
    await clock.advance(1500)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    listed = new Map()
    await clock.advance(300)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are free when their Pod came and went before the kubelet listed it', async () => {
    await claims.claim(slot(0), async () => undefined)
    put({ [slot(0)]: 'node-a' })
    users?.clear()
    podGone()
    await clock.advance(50)
    // It may be a claim for a Pod that has not been heard of yet.
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(60)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are those of a Pod that has ended, although the kubelet still lists it', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a' })
    ended.add(pod)
    users?.clear()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are none while a Pod that asks for them has not been given any, however long its image takes', async () => {
    await claims.claim(slot(0), async () => undefined)
    put({ [slot(0)]: 'node-a' })
    podGone()
    await clock.advance(600_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    // It was given another one: this is nobody's.
    listed = holds(slot(1))
    await clock.advance(10_000)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('A2 are none when a kubelet that has just restarted lists nothing, while their Pods are there', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a' })
    await clock.advance(10_000)
    listed = new Map()
    await clock.advance(60_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})
