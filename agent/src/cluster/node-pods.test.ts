import { type NodeName, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { KubernetesNodePods } from './node-pods.js'

const PODS = '/api/v1/namespaces/default/pods'
const resource = 'akri.sh/cam'
const key = objectKey('default', 'p')

let clock: ManualClock
let api: FakeApiServer
let pods: KubernetesNodePods
/** How often was told that a Pod has ended or is gone. */
let told: number
let started: number

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  api = new FakeApiServer(clock)
  pods = new KubernetesNodePods({
    client: await api.open(),
    clock,
    log: silentLogger,
    node: 'node-a' as NodeName,
  })
  told = 0
  started = 0
  const count = (change: 'started' | 'gone') => (change === 'gone' ? told++ : started++)
  pods.onChange(count, new AbortController().signal)
})

afterEach(async () => {
  await pods.close()
  await api.close()
})

interface Wanted {
  readonly name?: string
  readonly node?: string
  readonly phase?: string
  /** How many it asks for. */
  readonly asks?: number
  /** It has been asked to end. */
  readonly ending?: boolean
  /** Its container runs. */
  readonly running?: boolean
  readonly graceSeconds?: number
  readonly addresses?: readonly string[]
  readonly hostNetwork?: boolean
}

function podOf({
  name = 'p',
  node = 'node-a',
  phase = 'Running',
  asks = 1,
  ending = false,
  running,
  graceSeconds,
  addresses = [],
  hostNetwork = false,
}: Wanted = {}) {
  const limits = asks === 0 ? {} : { [resource]: String(asks) }
  return {
    metadata: {
      namespace: 'default',
      name,
      ...(ending
        ? {
            deletionTimestamp: '2026-01-01T00:00:00Z',
            ...(graceSeconds === undefined ? {} : { deletionGracePeriodSeconds: graceSeconds }),
          }
        : {}),
    },
    spec: {
      nodeName: node,
      ...(hostNetwork ? { hostNetwork } : {}),
      ...(graceSeconds === undefined ? {} : { terminationGracePeriodSeconds: graceSeconds }),
      containers: [{ name: 'c', resources: { limits } }],
    },
    status: {
      phase,
      ...(running === undefined
        ? {}
        : { containerStatuses: [{ state: running ? { running: {} } : { terminated: {} } }] }),
      startTime: `start of ${name}`,
      podIP: addresses[0],
      podIPs: addresses.map((ip) => ({ ip })),
    },
  }
}

const put = (wanted: Wanted = {}) => api.put(`${PODS}/${wanted.name ?? 'p'}`, podOf(wanted))
const remove = (name = 'p') => api.remove(`${PODS}/${name}`)
const users = () => Object.fromEntries(pods.users(resource))

let marks = 0

/**
 * What the server has told so far has been heard: a Pod that came after it is known, and has ended
 * by then.
 */
async function heard(): Promise<void> {
  const mark = `mark-${marks++}`
  put({ name: mark, phase: 'Succeeded', asks: 0 })
  await eventually(() => expect(pods.hasEnded(objectKey('default', mark))).toBe(true))
}

/** Follows the API server, from a first Pod on. */
async function follow(wanted?: Wanted): Promise<void> {
  put(wanted)
  pods.start()
  await heard()
}

describe('the Pods of a node', () => {
  it('R92 are known after the first list, without ended Pods and other Pods', async () => {
    put({ name: 'two', asks: 2 })
    put({ name: 'waits', phase: 'Pending' })
    put({ name: 'done', phase: 'Succeeded' })
    put({ name: 'failed', phase: 'Failed' })
    put({ name: 'ending', ending: true })
    put({ name: 'without', asks: 0 })
    put({ name: 'elsewhere', node: 'node-b' })
    expect(pods.synced).toBe(false)
    pods.start()
    await eventually(() => expect(pods.synced).toBe(true))
    expect(users()).toEqual({ 'default/two': 2, 'default/waits': 1, 'default/ending': 1 })
    expect(pods.users('akri.sh/other').size).toBe(0)
    const ended = ['two', 'waits', 'done', 'failed', 'ending', 'none'].filter((name) =>
      pods.hasEnded(objectKey('default', name)),
    )
    expect(ended).toEqual(['done', 'failed'])
    expect(pods.startedAt(objectKey('default', 'two'))).toBe('start of two')
  })

  it('hold their addresses until they have ended', async () => {
    put({ name: 'far', node: 'node-b', addresses: ['10.0.0.9'] })
    put({ name: 'young', asks: 0, phase: 'Pending' })
    put({ name: 'host', asks: 0, hostNetwork: true, addresses: ['192.168.0.1'] })
    pods.start()
    await eventually(() => expect(pods.synced).toBe(true))
    expect(['10.0.0.9', '192.168.0.1', ''].map((address) => pods.holderOf(address))).toEqual([
      undefined,
      'node',
      undefined,
    ])
    put({ name: 'young', asks: 0, addresses: ['10.0.0.7', 'fd00::7'] })
    await eventually(() => expect(pods.holderOf('10.0.0.7')).toMatch(/./))
    const holder = pods.holderOf('10.0.0.7')
    expect(pods.holderOf('fd00::7')).toBe(holder)
    // The next Pod has the same name and address.
    remove('young')
    put({ name: 'young', asks: 0, addresses: ['10.0.0.7'] })
    await eventually(() => {
      expect(pods.holderOf('10.0.0.7')).toMatch(/./)
      expect(pods.holderOf('10.0.0.7')).not.toBe(holder)
    })
    put({ name: 'young', asks: 0, phase: 'Succeeded', addresses: ['10.0.0.7'] })
    await eventually(() => expect(pods.holderOf('10.0.0.7')).toBeUndefined())
  })

  it.each(['Succeeded', 'Failed'])(
    'R90 R92 are said to be gone once all of their containers have %s, and once only',
    async (phase) => {
      await follow()
      expect([users(), told]).toEqual([{ [key]: 1 }, 0])
      put({ phase })
      await heard()
      expect([users(), told, pods.hasEnded(key)]).toEqual([{}, 1, true])
      put({ phase })
      await heard()
      expect(told).toBe(1)
      // It is not there any more, and none of its containers runs on.
      remove()
      await heard()
      expect([users(), told, pods.hasEnded(key)]).toEqual([{}, 1, false])
    },
  )

  it('are said to have started once, when a container runs that is no init container', async () => {
    await follow()
    put({ running: false })
    await heard()
    expect(started).toBe(0)
    for (const running of [true, true]) {
      put({ running })
      await heard()
    }
    expect([started, told]).toEqual([1, 0])
  })

  it('R90 use nothing after a deletion that waited for their containers', async () => {
    await follow()
    put({ ending: true })
    await heard()
    expect([users(), told]).toEqual([{ [key]: 1 }, 0])
    remove()
    await heard()
    expect([users(), told]).toEqual([{}, 1])
  })

  it.each([
    ['their grace period', 7, 7000],
    ['30 s, where they name no grace period', undefined, 30_000],
  ])(
    'R92 that are removed by force use what they had for %s more: their containers may run on',
    async (_, graceSeconds, ms) => {
      await follow({ asks: 2, ...(graceSeconds === undefined ? {} : { graceSeconds }) })
      remove()
      await heard()
      expect([users(), told, pods.hasEnded(key)]).toEqual([{ [key]: 2 }, 1, false])
      await clock.advance(ms - 1)
      expect(users()).toEqual({ [key]: 2 })
      await clock.advance(1)
      expect(users()).toEqual({})
    },
  )

  it('R92 that are removed by force while they end run on until their grace is over', async () => {
    await follow({ running: true, graceSeconds: 600 })
    put({ running: true, ending: true, graceSeconds: 60 })
    await heard()
    await clock.advance(20_000)
    put({ running: true, ending: true, graceSeconds: 50 })
    await heard()
    remove()
    await heard()
    expect([users(), told]).toEqual([{ [key]: 1 }, 1])
    await clock.advance(29_999)
    expect(users()).toEqual({ [key]: 1 })
    await clock.advance(1)
    expect(users()).toEqual({})
    // Containers that have ended do not run on.
    put({ running: false, ending: true, graceSeconds: 50 })
    await heard()
    expect(users()).toEqual({ [key]: 1 })
    remove()
    await heard()
    expect([users(), told]).toEqual([{}, 2])
  })

  it('that ask for no resource of Akri call no listener', async () => {
    await follow({ asks: 0 })
    put({ asks: 0, phase: 'Failed' })
    await heard()
    remove()
    await heard()
    expect([users(), told]).toEqual([{}, 0])
  })

  it('R90 call listeners for a deletion during an outage of the API server', async () => {
    await follow()
    api.refusal = () => ({ status: 500, message: 'refused' })
    api.cut()
    await eventually(() => expect(api.watches.size).toBe(0))
    put({ ending: true })
    remove()
    api.refusal = () => undefined
    await clock.untilSleeping()
    await inSteps(
      clock,
      () => {
        expect([users(), told]).toEqual([{}, 1])
      },
      1000,
    )
  })
})
