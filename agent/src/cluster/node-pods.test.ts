import { type NodeName, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
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

/** A Pod of this node that asks for one device. */
const POD = {
  name: 'p',
  node: 'node-a',
  phase: 'Running',
  asks: 1,
  /** Whether it has been asked to end. */
  ending: false,
  /** Whether its container runs; undefined before the kubelet has reported. */
  running: undefined as boolean | undefined,
  graceSeconds: undefined as number | undefined,
  addresses: [] as string[],
  hostNetwork: false,
}
type Wanted = Partial<typeof POD>

function podOf(wanted: Wanted) {
  const { name, node, phase, asks, ending, running, ...more } = { ...POD, ...wanted }
  const { graceSeconds, addresses, hostNetwork } = more
  const deletion = ending && { deletionTimestamp: 'then', deletionGracePeriodSeconds: graceSeconds }
  const limits = asks === 0 ? {} : { [resource]: String(asks) }
  const status = {
    ...{ phase, startTime: `start of ${name}`, podIP: addresses[0] },
    containerStatuses: running === undefined ? [] : [{ state: running ? { running: {} } : {} }],
    podIPs: addresses.map((ip) => ({ ip })),
  }
  const spec = {
    ...{ nodeName: node, hostNetwork, terminationGracePeriodSeconds: graceSeconds },
    containers: [{ resources: { limits } }],
  }
  // A server shows no undefined fields.
  const metadata = { namespace: 'default', name, ...deletion }
  return JSON.parse(JSON.stringify({ metadata, spec, status }))
}

const put = (wanted: Wanted = {}) => api.put(`${PODS}/${wanted.name ?? 'p'}`, podOf(wanted))
const remove = (name = 'p') => api.remove(`${PODS}/${name}`)
const users = () => Object.fromEntries(pods.users(resource))

const has = (count: number) => (count === 0 ? {} : { [key]: count })

let marks = 0

/** The server has shown all until now: a Pod that came after it is known, and has ended. */
async function heard(): Promise<void> {
  const mark = `mark-${marks++}`
  put({ name: mark, phase: 'Succeeded', asks: 0 })
  await eventually(() => expect(pods.hasEnded(objectKey('default', mark))).toBe(true))
}

/** Puts the Pod, from the start or a change; undefined removes it. */
async function show(wanted: Wanted | undefined): Promise<void> {
  if (wanted === undefined) remove()
  else put(wanted)
  await heard()
}

/** Follows the API server, from a first Pod on. */
async function follow(wanted: Wanted = {}): Promise<void> {
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
    const holders = (...addresses: string[]) => addresses.map((each) => pods.holderOf(each))
    const showYoung = (phase = 'Running') =>
      show({ name: 'young', asks: 0, phase, addresses: ['10.0.0.7', 'fd00::7'] })
    put({ name: 'far', node: 'node-b', addresses: ['10.0.0.9'] })
    put({ name: 'host', asks: 0, hostNetwork: true, addresses: ['192.168.0.1'] })
    await follow({ name: 'young', asks: 0, phase: 'Pending' })
    expect(holders('10.0.0.9', '192.168.0.1', '')).toEqual([undefined, 'node', undefined])
    await showYoung()
    const [first] = holders('10.0.0.7')
    expect(holders('10.0.0.7', 'fd00::7')).toEqual([expect.any(String), first])
    // The next Pod has the same name and address.
    remove('young')
    await showYoung()
    expect(holders('10.0.0.7')).toEqual([expect.any(String)])
    expect(holders('10.0.0.7')).not.toEqual([first])
    await showYoung('Succeeded')
    expect(holders('10.0.0.7')).toEqual([undefined])
  })

  /** Each change, and then: how many devices `p` uses, and how many changes were told. */
  type Change = [Wanted | undefined, uses: number, gone: number, started: number]
  const once = (phase: string): Change[] => [
    [{ phase }, 0, 1, 0],
    [{ phase }, 0, 1, 0],
    // None of its containers runs on.
    [undefined, 0, 1, 0],
  ]
  const starting: Change[] = [
    [{ running: false }, 1, 0, 0],
    [{ running: true }, 1, 0, 1],
    [{ running: true }, 1, 0, 1],
  ]
  const waiting: Change[] = [
    [{ ending: true }, 1, 0, 0],
    [undefined, 0, 1, 0],
  ]
  const unrelated: Change[] = [
    [{ asks: 0, phase: 'Failed' }, 0, 0, 0],
    [undefined, 0, 0, 0],
  ]
  it.each<[string, Wanted, Change[]]>([
    ['R90 R92 are gone once all of their containers have succeeded', {}, once('Succeeded')],
    ['R90 R92 are gone once all of their containers have failed', {}, once('Failed')],
    ['have started once, when a container runs that is no init container', {}, starting],
    ['R90 use nothing after a deletion that waited for their containers', {}, waiting],
    ['that ask for no resource of Akri call no listener', { asks: 0 }, unrelated],
  ])('%s', async (_, first, changes) => {
    await follow(first)
    expect([told, started]).toEqual([0, 0])
    for (const [wanted, uses, ...counts] of changes) {
      await show(wanted)
      expect([users(), told, started]).toEqual([has(uses), ...counts])
      expect(pods.hasEnded(key)).toBe(['Succeeded', 'Failed'].includes(wanted?.phase ?? ''))
    }
  })

  it.each([
    ['their grace period', 7, 7000],
    ['30 s, where they name no grace period', undefined, 30_000],
  ])(
    'R92 that are removed by force use what they had for %s more: their containers may run on',
    async (_, graceSeconds, ms) => {
      await follow({ asks: 2, graceSeconds })
      await show(undefined)
      expect([users(), told, pods.hasEnded(key)]).toEqual([has(2), 1, false])
      await clock.advance(ms - 1)
      expect(users()).toEqual(has(2))
      await clock.advance(1)
      expect(users()).toEqual({})
    },
  )

  it('R92 that are removed by force while they end run on until their grace is over', async () => {
    await follow({ running: true, graceSeconds: 600 })
    await show({ running: true, ending: true, graceSeconds: 60 })
    await clock.advance(20_000)
    await show({ running: true, ending: true, graceSeconds: 50 })
    await show(undefined)
    expect([users(), told]).toEqual([has(1), 1])
    await clock.advance(29_999)
    expect(users()).toEqual(has(1))
    await clock.advance(1)
    expect(users()).toEqual({})
    // Containers that have ended do not run on.
    await show({ running: false, ending: true, graceSeconds: 50 })
    expect(users()).toEqual(has(1))
    await show(undefined)
    expect([users(), told]).toEqual([{}, 2])
  })
})
