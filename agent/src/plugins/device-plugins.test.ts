import { once } from 'node:events'
import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import type { ConfigurationName, InstanceName, SlotName } from '@akrijs/api'
import { keyOf, type NodeName, objectKey } from '@akrijs/kube'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import {
  type AllocateResponse,
  DevicePluginClient,
  type ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { NO_CHANNELZ, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { credentials } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { KubeletUnavailableError, PluginRefusedError } from '../errors.js'
import type { ServedConfiguration, ServedInstance } from '../instances/served-instance.js'
import type { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { type AgentObserver, noopObserver } from '../report/observer.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { InstanceResource } from '../slots/instance-resource.js'
import type { MemoryCluster } from '../testing/memory-cluster.js'
import { configurationWith } from '../testing/objects.js'
import { PluginEnvironment } from '../testing/plugin-environment.js'
import { DevicePlugins } from './device-plugins.js'

const node = 'node-a' as NodeName
const resource = 'akri.sh/cam-8120fe'
const key = objectKey('default', 'cam-8120fe')
const configuration = configurationWith({ capacity: 3 }, { name: 'cam' as ConfigurationName })
const served: ServedInstance = {
  key,
  name: 'cam-8120fe' as InstanceName,
  configuration: configuration.metadata.name,
  digest: '8120fe',
  device: {
    id: 'foo0',
    mounts: [{ containerPath: '/data', hostPath: '/srv/cam', readOnly: true }],
    deviceSpecs: [{ containerPath: '/dev/video0', hostPath: '/dev/video0', permissions: 'rw' }],
  },
  properties: { NODE: '/dev/video0' },
  healthy: true,
  capacity: 3,
}

let home: PluginEnvironment
let cluster: MemoryCluster
let kubelet: SimulatedKubelet
let sockets: KubeletSockets
let ledger: AllocationLedger
let plugins: DevicePlugins
let clock: ManualClock

beforeEach(async () => {
  clock = new ManualClock()
  home = await PluginEnvironment.open(node, clock)
  ;({ cluster, kubelet, sockets, ledger } = home)
  plugins = start()
  await cluster.createInstance({
    name: served.name,
    namespace: 'default',
    annotations: {},
    owner: configuration,
    spec: {
      configurationName: configuration.metadata.name,
      cdiName: 'akri.sh/cam=8120fe',
      capacity: 3,
      brokerProperties: {},
      shared: true,
      nodes: [node],
      deviceUsage: {},
    },
  })
})

afterEach(async () => {
  await plugins.close()
  await kubelet.close()
  await home.close()
})

function start(observer: AgentObserver = noopObserver): DevicePlugins {
  return new DevicePlugins({
    book: home.book,
    claims: home.claims,
    kubelet: sockets,
    node,
    clock,
    log: silentLogger,
    observer,
  })
}
/** Restarts the agent's part. */
async function restart(): Promise<void> {
  await plugins.close()
  home.restart()
  ;({ ledger } = home)
  plugins = start()
}
/** Waits while the time of the agent passes. */
const later = (look: () => unknown) =>
  eventually(async () => {
    await clock.advance(1000)
    await look()
  })
const pod = (uid: string, ...containers: number[]) => ({
  uid,
  name: uid,
  namespace: 'default',
  containers: containers.map((count, index) => ({
    name: `c${index}`,
    resources: { [resource]: count },
  })),
})
const serve = async (instance: ServedInstance) => (await plugins.serve(instance)).registered
const serveConfiguration = async (served: ServedConfiguration) =>
  (await plugins.serveConfiguration(served)).registered
const usage = () => cluster.instances.get(key)?.spec.deviceUsage
/** The plugin's answer to a kubelet that asks for these ids, whatever list the kubelet has. */
async function allocate(...ids: readonly string[]): Promise<AllocateResponse> {
  const socket = `unix:${await pluginPath()}`
  const client = new DevicePluginClient(socket, credentials.createInsecure(), NO_CHANNELZ)
  try {
    return await new Promise((resolve, reject) => {
      client.allocate({ containerRequests: [{ devicesIDs: [...ids] }] }, (error, answer) =>
        error ? reject(error) : resolve(answer),
      )
    })
  } finally {
    client.close()
  }
}
async function pluginPath(): Promise<string> {
  const names = await readdir(kubelet.pluginDirectory)
  const name = names.find((name) => name.startsWith('akri-cam-8120fe-')) ?? expect.fail()
  return path.join(kubelet.pluginDirectory, name)
}
/**
 * Follows the plugin as another kubelet. Resolves after the first list.
 * @returns the health of all ids in each list, when the plugin has ended
 */
async function follow(): Promise<{ lists: Promise<boolean[][]> }> {
  const client = new DevicePluginClient(
    `unix:${await pluginPath()}`,
    credentials.createInsecure(),
    NO_CHANNELZ,
  )
  const stream = client.listAndWatch({})
  const lists: boolean[][] = []
  stream.on('error', () => undefined)
  stream.on('data', ({ devices }: ListAndWatchResponse) =>
    lists.push(devices.map(({ health }) => health === 'Healthy')),
  )
  const ended = once(stream, 'close').then(() => {
    client.close()
    return lists
  })
  await once(stream, 'data')
  return { lists: ended }
}
const health = () => Object.fromEntries(kubelet.devices(resource))
const slot = (index: number) => `cam-8120fe-${index}` as SlotName

it.each([true, false])(
  'keeps a lost device until its Pods end, offered or not: %s',
  async (offered) => {
    if (offered) await serveConfiguration({ key: keyOf(configuration), name: served.configuration })
    const over: string[] = []
    home.book.onLossOver((name) => over.push(name), new AbortController().signal)
    const lost = () => [...home.book.lost(served.configuration)]
    const used = { slot: slot(0), resourceName: resource, id: slot(0) }
    await serve(served)
    ledger.record(used)
    await plugins.withdraw(served.name)
    expect(lost()).toEqual([])
    await serve(served)
    await plugins.withdraw(served.name, { isGone: true })
    expect(lost()).toEqual([served.name])
    await serve(served)
    expect(lost()).toEqual([])
    await plugins.withdraw(served.name, { isGone: true })
    ledger.record({ ...used, slot: slot(1), id: slot(1) })
    ledger.remove(used)
    expect([lost(), over]).toEqual([[served.name], []])
    ledger.remove({ ...used, slot: slot(1), id: slot(1) })
    expect([lost(), over]).toEqual([[], ['cam']])
  },
)

it('knows a lost device of a Configuration that has no other device', () => {
  ledger.record({ slot: slot(0), resourceName: resource, id: slot(0) })
  home.book.lose(served.configuration, served.name)
  expect(home.book.isLost(served.name)).toBe(true)
  ledger.remove({ slot: slot(0), resourceName: resource, id: slot(0) })
  expect(home.book.isLost(served.name)).toBe(false)
})

describe('the device plugin of an Instance', () => {
  it('R24 R81 offers its slots by fixed ids, all healthy at first', async () => {
    await serve(served)
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: true, [slot(1)]: true, [slot(2)]: true }),
    )
  })

  it('R83 R38 A15 offers foreign slots as unhealthy at both levels, until freed', async () => {
    await serve(served)
    await cluster.claimSlot(key, slot(0), 'node-b')
    await cluster.claimSlot(key, slot(1), 'C:0:node-a')
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: false, [slot(1)]: false, [slot(2)]: true }),
    )
    await cluster.releaseSlot(key, slot(0), 'node-b')
    await later(() => expect(health()[slot(0)]).toBe(true))
  })

  it('R77 reserves a freed slot for the node that had it, at both levels', async () => {
    await serveConfiguration({
      key: objectKey('default', 'cam'),
      name: configuration.metadata.name,
    })
    await serve({ ...served, capacity: 1 })
    const offered = () => [
      kubelet.resource(resource).allocatable,
      kubelet.resource('akri.sh/cam').allocatable,
    ]
    await eventually(() => expect(offered()).toEqual([1, 1]))
    await cluster.joinInstance(key, 'node-b' as NodeName)
    await cluster.claimSlot(key, slot(0), 'node-b')
    await eventually(() => expect(offered()).toEqual([0, 0]))
    await cluster.releaseSlot(key, slot(0), 'node-b')
    expect(usage()?.[slot(0)]).toBe('')
    await clock.advance(14_999)
    expect(offered()).toEqual([0, 0])
    await clock.advance(1)
    await eventually(() => expect(offered()).toEqual([1, 1]))
    await kubelet.admit(pod('p', 1))
  })

  it('R77 reserves a slot that another node claimed before the start of the agent', async () => {
    await cluster.joinInstance(key, 'node-b' as NodeName)
    await cluster.claimSlot(key, slot(0), 'node-b')
    await restart()
    await serve(served)
    await cluster.releaseSlot(key, slot(0), 'node-b')
    await expect(allocate(slot(0))).rejects.toThrow(slot(0))
    await clock.advance(15_000)
    await allocate(slot(0))
    expect(usage()?.[slot(0)]).toBe('node-a')
  })

  it('R7 R84 R18 R87 allocates no slot twice while its Instance has lost a claim', async () => {
    await serve({ ...served, capacity: 1 })
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
    ledger.record({ slot: slot(0), resourceName: 'akri.sh/cam', id: '0' })
    let lists = 0
    kubelet.onChange(() => lists++, new AbortController().signal)
    await eventually(() => expect(health()).toEqual({ [slot(0)]: false }))
    lists = 0
    await expect(allocate(slot(0))).rejects.toThrow(
      `a container of this node has slot ${slot(0)} already, by C:0:node-a`,
    )
    expect(usage()?.[slot(0)]).toBe('')
    // The list is the same as before.
    await eventually(() => expect(lists).toBeGreaterThan(0))
    ledger.remove({ slot: slot(0), resourceName: 'akri.sh/cam', id: '0' })
    await eventually(() => expect(health()).toEqual({ [slot(0)]: true }))
    await kubelet.admit(pod('q', 1))
    expect(ledger.list()).toEqual([{ slot: slot(0), resourceName: resource, id: slot(0) }])
  })

  it('R39 R80 R111 R113 A18 claims slots of the kubelet, and answers with the device', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    const answer = await kubelet.admit(pod('p', 2, 1))
    expect(answer.get('c0')).toEqual({
      envs: { NODE: '/dev/video0', NODE_8120FE: '/dev/video0' },
      mounts: served.device.mounts,
      devices: served.device.deviceSpecs,
      annotations: {
        [`akri.agent.slot-${slot(0)}`]: slot(0),
        [`akri.agent.slot-${slot(1)}`]: slot(1),
      },
    })
    expect(answer.get('c1')?.annotations).toEqual({ [`akri.agent.slot-${slot(2)}`]: slot(2) })
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a', [slot(2)]: 'node-a' })
  })

  it('R85 R87 R112 A17 refuses a slot that another node claimed, and sends the rest', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    // The other node wins the race between the kubelet's choice and our claim.
    const claim = cluster.claimSlot.bind(cluster)
    const spy = vi.spyOn(cluster, 'claimSlot').mockImplementation(async (where, which, who) => {
      if (which === slot(1)) await claim(where, which, 'node-b')
      return claim(where, which, who)
    })
    await expect(kubelet.admit(pod('p', 3))).rejects.toThrow(
      /slot cam-8120fe-1 was just taken by node node-b/,
    )
    spy.mockRestore()
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: 'node-b', [slot(2)]: '' })
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: true, [slot(1)]: false, [slot(2)]: true }),
    )
    await kubelet.admit(pod('q', 2))
  })

  it('R84 R92 keeps slots of a request without an answer from being released', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    const claim = cluster.claimSlot.bind(cluster)
    const release = async () => cluster.releaseSlot(key, slot(0), node)
    let released: unknown = 'not tried'
    vi.spyOn(cluster, 'claimSlot').mockImplementation(async (where, which, who) => {
      // The first slot is claimed by now, and the kubelet lists neither slot.
      if (which === slot(1))
        released = home.claims.lastClaimed(slot(0)) === clock.monotonicMs() ? undefined : release()
      return claim(where, which, who)
    })
    await kubelet.admit(pod('p', 2))
    expect(released).toBeUndefined()
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a', [slot(2)]: '' })
  })

  it('A16 allocates slots that its node still claims to the next Pod', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await kubelet.admit(pod('p', 3))
    const held = usage()
    kubelet.remove('p')
    expect((await kubelet.admit(pod('q', 2, 1))).get('c0')?.envs).toMatchObject({
      NODE: '/dev/video0',
    })
    expect(usage()).toEqual(held)
  })

  it('R82 neither allocates nor offers a device that its handler does not report', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await serve({ ...served, healthy: false })
    await eventually(() =>
      expect(kubelet.resource(resource)).toMatchObject({ capacity: 3, allocatable: 0 }),
    )
    // The kubelet does not know the change yet.
    const own = new InstanceResource(served.name, { book: home.book, node })
    const allocation = home.claims.allocate(own, [[slot(0)]])
    await expect(allocation).rejects.toThrow(
      'the device of Instance cam-8120fe is not available now',
    )
    expect(usage()?.[slot(0)]).toBe('')
  })

  it('R88 sends its list within a minute after a change that no event reported', async () => {
    vi.spyOn(cluster.instances, 'onChange').mockImplementation(() => {})
    await restart()
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await cluster.claimSlot(key, slot(0), 'node-b')
    await clock.advance(59_999)
    expect(health()[slot(0)]).toBe(true)
    await clock.advance(1)
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: false, [slot(1)]: true, [slot(2)]: true }),
    )
  })

  it('A19 answers with the current properties of the device', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await serve({ ...served, properties: { NODE: '/dev/video7' } })
    expect((await kubelet.admit(pod('p', 1))).get('c0')?.envs).toEqual({
      NODE: '/dev/video7',
      NODE_8120FE: '/dev/video7',
    })
  })

  it('A20 follows the capacity, and refuses a slot beyond it without harm', async () => {
    await serve(served)
    await cluster.updateInstance(key, { capacity: 1, brokerProperties: {} })
    await serve({ ...served, capacity: 1 })
    await eventually(() => expect(health()).toEqual({ [slot(0)]: true }))
    for (const index of [1, 2, 7])
      await expect(allocate(slot(0), slot(index))).rejects.toThrow(
        `Instance cam-8120fe has no slot "cam-8120fe-${index}"; its capacity is 1`,
      )
    expect(usage()).toEqual({ [slot(0)]: '' })
    expect(await cluster.claimSlot(key, slot(7), 'node-a')).toEqual({ outcome: 'gone' })
    await allocate(slot(0))
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
  })

  it.each([
    '',
    '0',
    'cam-8120fe',
    'cam-8120fe-',
    'cam-8120fe-01',
    'cam-8120fe--1',
    'cam-8120fe-1000000000',
    'cam-a19705-0',
    'ä\n',
  ])(
    'A20 A22 refuses the id %j, which is no slot of its Instance, and claims nothing',
    async (id) => {
      await serve(served)
      await expect(allocate(slot(0), id)).rejects.toThrow(
        `${JSON.stringify(id)} is not a slot of Instance cam-8120fe`,
      )
      expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' })
    },
  )

  it('A20 quotes only the beginning of a refused id', async () => {
    await serve(served)
    await expect(allocate('x'.repeat(100_000))).rejects.toThrow(
      `"${'x'.repeat(200)}" is not a slot of Instance cam-8120fe`,
    )
  })

  it.each([
    ['node-b', 'node-b'],
    ['C:0:node-b', 'node-b'],
    ['C:0:node-a', 'node-a'],
  ])(
    'R84 R85 refuses a slot that %s claims, and names the node of the claim',
    async (holder, at) => {
      await serve(served)
      await cluster.claimSlot(key, slot(1), holder)
      await expect(allocate(slot(0), slot(1))).rejects.toThrow(
        `slot cam-8120fe-1 is taken by node ${at}`,
      )
      expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: holder, [slot(2)]: '' })
    },
  )

  it('R84 A13 refuses, and does not offer, slots of a deleted or missing Instance', async () => {
    const instance = cluster.instances.get(key) ?? expect.fail()
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    const leaving = {
      ...instance,
      metadata: { ...instance.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
    }
    const get = vi.spyOn(cluster.instances, 'get').mockReturnValue(leaving)
    await clock.advance(60_000)
    await expect(allocate(slot(0))).rejects.toThrow('Instance cam-8120fe is being deleted')
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: false, [slot(1)]: false, [slot(2)]: false }),
    )
    get.mockReturnValue(undefined)
    await clock.advance(60_000)
    await expect(allocate(slot(0))).rejects.toThrow('there is no Instance cam-8120fe yet')
    get.mockRestore()
    await clock.advance(60_000)
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' })
    await allocate(slot(0))
  })

  it('keeps slots of containers healthy without the Instance, until they end', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await kubelet.admit(pod('p', 2))
    await cluster.leaveInstance(key, node)
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: true, [slot(1)]: true, [slot(2)]: false }),
    )
    ledger.remove({ slot: slot(0), resourceName: resource, id: slot(0) })
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: false, [slot(1)]: true, [slot(2)]: false }),
    )
  })

  it('A21 is served on a new socket and registered again after a restart', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    const before = await readdir(kubelet.pluginDirectory)
    await kubelet.restart()
    await later(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    expect(
      (await readdir(kubelet.pluginDirectory)).filter(
        (name) => name !== 'kubelet.sock' && before.includes(name),
      ),
    ).toEqual([])
  })

  it('A21 is registered again on its socket when the kubelet has dropped it', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    const before = await readdir(kubelet.pluginDirectory)
    for (let round = 0; round < 2; round++) {
      kubelet.giveUp(resource)
      expect(kubelet.resource(resource).allocatable).toBe(0)
      await later(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    }
    expect(await readdir(kubelet.pluginDirectory)).toEqual(before)
  })

  it('is a problem of its Configuration while the kubelet refuses it', async () => {
    const owner = objectKey('default', 'cam')
    const changed = vi.fn()
    plugins.onRegistrationChange(changed, new AbortController().signal)
    const refusal = vi.spyOn(sockets, 'register')
    refusal.mockRejectedValue(new PluginRefusedError('not so'))
    await serve(served)
    await serveConfiguration({ key: owner, name: served.configuration })
    const problems = () => plugins.registrationProblems(owner)
    expect(problems()).toEqual([
      { resourceName: resource, isRefused: true, message: 'not so' },
      { resourceName: 'akri.sh/cam', isRefused: true, message: 'not so' },
    ])
    expect(changed.mock.calls).toEqual([[owner], [owner]])
    await plugins.withdrawConfiguration(owner)
    expect(problems()).toMatchObject([{ resourceName: resource }])
    refusal.mockRestore()
    await later(() => expect(problems()).toEqual([]))
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
  })

  it('is no problem if the kubelet took it, and answered too late', async () => {
    const register = sockets.register.bind(sockets)
    const registering = vi.spyOn(sockets, 'register')
    registering.mockImplementation(async (...registration) => {
      await register(...registration)
      throw new PluginRefusedError('too late')
    })
    await serve(served)
    const problems = () => plugins.registrationProblems(objectKey('default', 'cam'))
    expect(problems()).toMatchObject([{ resourceName: resource }])
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await later(() => expect(problems()).toEqual([]))
    expect(registering).toHaveBeenCalledTimes(1)
  })

  it('A21 is registered again if the kubelet has accepted it, and reads no list', async () => {
    const registering = vi.spyOn(sockets, 'register')
    registering.mockResolvedValueOnce()
    registering.mockResolvedValueOnce()
    await serve(served)
    await clock.advance(14_000)
    expect(registering).toHaveBeenCalledTimes(1)
    await later(() => expect(registering).toHaveBeenCalledTimes(3))
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await clock.advance(60_000)
    expect(registering).toHaveBeenCalledTimes(3)
  })

  it('is a problem of its Configuration if the kubelet stays away', async () => {
    await kubelet.close()
    await serve(served)
    const problems = () => plugins.registrationProblems(objectKey('default', 'cam'))
    await clock.advance(9000)
    expect(problems()).toEqual([])
    await later(() =>
      expect(problems()).toMatchObject([{ resourceName: resource, isRefused: false }]),
    )
  })

  it('is registered when a kubelet appears after the start of the agent', async () => {
    await kubelet.close()
    await serve(served)
    kubelet = await SimulatedKubelet.start({ directory: home.directory })
    await later(() => expect(kubelet.resource(resource).allocatable).toBe(3))
  })

  it('R17 A23 leaves no socket behind', async () => {
    await serve(served)
    await plugins.withdraw(served.name)
    expect(await readdir(kubelet.pluginDirectory)).toEqual(['kubelet.sock'])
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(0))
  })

  it.each([
    [
      'goes',
      { isGone: true },
      [
        [true, true, true],
        [false, false, false],
      ],
    ],
    ['stays', {}, [[true, true, true]]],
  ])('ends with a list that says whether its device %s', async (_what, options, expected) => {
    await serve(served)
    const { lists } = await follow()
    await plugins.withdraw(served.name, options)
    expect(await lists).toEqual(expected)
  })

  it('ends with the agent without a list: its device stays', async () => {
    await serve(served)
    const { lists } = await follow()
    await plugins.close()
    expect(await lists).toEqual([[true, true, true]])
  })

  it('sends the last list of thousands of slots to its end', async () => {
    const capacity = 5000
    await cluster.updateInstance(key, { capacity, brokerProperties: {} })
    await serve({ ...served, capacity })
    const { lists } = await follow()
    await plugins.withdraw(served.name, { isGone: true })
    const [first = [], last = []] = await lists
    expect([first.length, first.every(Boolean)]).toEqual([capacity, true])
    expect([last.length, last.some(Boolean)]).toEqual([capacity, false])
  })

  it('ends within a second if the kubelet does not read its list', async () => {
    const capacity = 5000
    await cluster.updateInstance(key, { capacity, brokerProperties: {} })
    await serve({ ...served, capacity })
    const client = new DevicePluginClient(
      `unix:${await pluginPath()}`,
      credentials.createInsecure(),
      NO_CHANNELZ,
    )
    const unread = client.listAndWatch({})
    unread.on('error', () => undefined)
    await once(unread, 'metadata')
    const withdrawn = plugins.withdraw(served.name, { isGone: true })
    await clock.advance(1000)
    await withdrawn
    client.close()
    expect(await readdir(kubelet.pluginDirectory)).toEqual(['kubelet.sock'])
  })

  it('is offered again if its device comes back while its last list is sent', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await plugins.withdraw(served.name, { isGone: true })
    await serve(served)
    await eventually(() =>
      expect(health()).toEqual({ [slot(0)]: true, [slot(1)]: true, [slot(2)]: true }),
    )
    await kubelet.admit(pod('p', 3))
  })

  it('A22 is made and registered once, however often it is reconciled', async () => {
    const registered = vi.spyOn(sockets, 'register')
    const configurationKey = objectKey('default', 'cam')
    for (let round = 0; round < 5; round++) {
      await serveConfiguration({ key: configurationKey, name: configuration.metadata.name })
      await serve(served)
    }
    expect(registered.mock.calls.map(([{ resourceName }]) => resourceName)).toEqual([
      'akri.sh/cam',
      resource,
    ])
    expect(plugins.size).toBe(2)
    expect(
      (await readdir(kubelet.pluginDirectory)).filter((name) => name.startsWith('akri-')),
    ).toHaveLength(2)
    await plugins.withdraw(served.name)
    await plugins.withdrawConfiguration(configurationKey)
    expect(await readdir(kubelet.pluginDirectory)).toEqual(['kubelet.sock'])
  })

  it('A8 does not serve two Instances of one name', async () => {
    await serve(served)
    await expect(
      plugins.serve({ ...served, key: objectKey('other', 'cam-8120fe') }),
    ).rejects.toThrow(/default\/cam-8120fe/)
  })

  it('does not serve an Instance and a Configuration of one name', async () => {
    const name = 'cam-8120fe' as ConfigurationName
    await serve(served)
    for (const namespace of ['default', 'other'])
      await expect(
        plugins.serveConfiguration({ key: objectKey(namespace, name), name }),
      ).rejects.toThrow(/akri\.sh\/cam-8120fe is the resource of instance default\/cam-8120fe/)
    await plugins.withdraw(served.name)
    await serveConfiguration({ key, name })
    await expect(plugins.serve(served)).rejects.toThrow(
      /akri\.sh\/cam-8120fe is the resource of configuration default\/cam-8120fe/,
    )
  })

  it('counts no failed registration if it ends before the answer of the kubelet', async () => {
    const counted: string[] = []
    const observer = { ...noopObserver, registered: (result: string) => void counted.push(result) }
    const registering = vi.spyOn(sockets, 'register')
    const asked = new Promise<void>((onAsked) => {
      registering.mockImplementation(async (_, signal) => {
        onAsked()
        await once(signal, 'abort')
        throw new KubeletUnavailableError('the call was cancelled')
      })
    })
    const hasty = start(observer)
    await hasty.serve(served)
    await asked
    await hasty.close()
    expect(counted).toEqual([])
  })

  it('A21 A23 serves on another socket after its socket was removed', async () => {
    await serve(served)
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    const own = async () =>
      (await readdir(kubelet.pluginDirectory)).filter((name) => name.startsWith('akri-'))
    const [before = ''] = await own()
    await rm(path.join(kubelet.pluginDirectory, before))
    await later(async () => expect(await own()).toEqual([expect.not.stringMatching(before)]))
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    await kubelet.admit(pod('p', 1))
  })
})
