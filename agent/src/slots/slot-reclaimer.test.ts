import {
  API_VERSION,
  type ConfigurationName,
  type Instance,
  type InstanceName,
  type NodeName,
  objectKey,
  type SlotName,
} from '@akrijs/kube'
import { silentLogger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { KubeletUnavailableError } from '../errors.js'
import { ObjectStore } from '../standalone/object-store.js'
import { SlotReclaimer } from './slot-reclaimer.js'

const key = objectKey('default', 'cam-8120fe')
const slot = (index: number) => `cam-8120fe-${index}` as SlotName

let clock: ManualClock
let instances: ObjectStore<Instance>
let listed: Map<string, Set<string>> | undefined
let claims: Map<string, number>
let podGone: () => void
let stop: AbortController
let ran: Promise<void>

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
  claims = new Map()
  podGone = () => {}
  stop = new AbortController()
  const reclaimer = new SlotReclaimer({
    clock,
    log: silentLogger,
    node: 'node-a' as NodeName,
    lastClaimed: (which) => claims.get(which),
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
      onPodGone: (listener) => {
        podGone = listener
      },
    },
  })
  ran = reclaimer.run(stop.signal)
})

afterEach(async () => {
  stop.abort()
  await ran
  expect(clock.sleeping).toEqual([])
})

describe('slots that nobody uses', () => {
  it('R90 R92 A14 are taken back after the grace period, of both levels, and no sooner', async () => {
    put({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(20_000 - 1000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(12_000)
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' })
  })

  it('R90 are not those that a container has, of another node, or of a form that nobody knows', async () => {
    listed = new Map([
      ['akri.sh/cam-8120fe', new Set([slot(0)])],
      ['akri.sh/cam', new Set(['7'])],
    ])
    const held = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: 'node-b', 'cam-8120fe-3': 'C:x' }
    put(held)
    await clock.advance(120_000)
    expect(usage()).toEqual(held)
  })

  it('R90 are free at once when a Pod went, if its container was seen to have them', async () => {
    listed = new Map([['akri.sh/cam-8120fe', new Set([slot(0)])]])
    claims.set(slot(0), clock.now())
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    listed = new Map()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are not those whose container could still be starting, whatever Pod went', async () => {
    claims.set(slot(0), clock.now())
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    podGone()
    await clock.advance(10_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
  })

  it('R92 give a slot that is claimed again the whole grace, though it was unused before', async () => {
    put({ [slot(0)]: 'node-a' })
    await clock.advance(19_000)
    claims.set(slot(0), clock.now())
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
