import { readdir } from 'node:fs/promises'
import type { Configuration, InstanceName, SlotName } from '@akrijs/api'
import type { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import type { Cluster } from '../cluster/cluster.js'
import type { ServedInstance, WithdrawOptions } from '../instances/served-instance.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { ConfigurationResource } from '../slots/configuration-resource.js'
import type { PreferenceRequest } from '../slots/resource.js'
import { SlotReconciler } from '../slots/slot-reconciler.js'
import type { MemoryCluster } from '../testing/memory-cluster.js'
import { draftOf, manifest } from '../testing/objects.js'
import { PluginEnvironment } from '../testing/plugin-environment.js'
import { DevicePlugins } from './device-plugins.js'

const NODE = 'node-a' as NodeName
const DIGESTS = ['8120fe', 'a19705']

let environment: PluginEnvironment
let cluster: MemoryCluster
let configuration: Configuration
let name: string
let kubelet: SimulatedKubelet
let ledger: AllocationLedger
let plugins: DevicePlugins
let clock: ManualClock

beforeEach(async () => {
  clock = new ManualClock()
  environment = await PluginEnvironment.open(NODE, clock)
  ;({ cluster, kubelet, ledger } = environment)
  const wanted = manifest({ capacity: 2 })
  await cluster.apply(wanted)
  configuration = cluster.configurations.list()[0] ?? expect.fail()
  name = configuration.metadata.name
  plugins = new DevicePlugins({
    book: environment.book,
    claims: environment.claims,
    kubelet: environment.sockets,
    node: NODE,
    clock,
    log: silentLogger,
  })
  const { registered } = await plugins.serveConfiguration({
    key: objectKey('default', name),
    name: configuration.metadata.name,
  })
  await registered
})

afterEach(async () => {
  await plugins.close()
  await environment.close()
})

const instanceName = (digest: string) => `${name}-${digest}` as InstanceName
const key = (digest: string) => objectKey('default', instanceName(digest))
const slot = (digest: string, index: number) => `${name}-${digest}-${index}` as SlotName
const usage = () =>
  Object.assign({}, ...cluster.instances.list().map(({ spec }) => spec.deviceUsage)) as Record<
    string,
    string
  >
const held = () => Object.fromEntries(Object.entries(usage()).filter(([, holder]) => holder !== ''))
const resource = () => `akri.sh/${name}`
const ids = () => [...kubelet.devices(resource()).keys()]
const health = (digest: string) => [...kubelet.devices(`akri.sh/${instanceName(digest)}`).values()]

async function serve(digest: string): Promise<void> {
  await cluster.createInstance(draftOf(configuration, 2, [NODE], digest))
  const { registered } = await plugins.serve(servedOf(digest))
  await registered
}

function servedOf(digest: string): ServedInstance {
  return {
    key: key(digest),
    name: instanceName(digest),
    configuration: configuration.metadata.name,
    digest,
    device: {
      id: digest,
      mounts: [{ containerPath: `/data/${digest}`, hostPath: `/srv/${digest}`, readOnly: true }],
      deviceSpecs: [
        { containerPath: `/dev/${digest}`, hostPath: `/dev/${digest}`, permissions: 'rw' },
      ],
    },
    properties: { CAMERA: digest },
    healthy: true,
    capacity: 2,
  }
}

/** The resource of the same devices, on a cluster with changed answers. */
function resourceOn(changed: Partial<Pick<Cluster, 'claimSlot'>> = {}) {
  const { book } = environment
  const claims = environment.claimsOn({
    claimSlot: cluster.claimSlot.bind(cluster),
    releaseSlot: cluster.releaseSlot.bind(cluster),
    ...changed,
  })
  const resource = new ConfigurationResource(configuration.metadata.name, { book, node: NODE })
  return {
    advertise: () => resource.advertise(),
    prefer: (requests: readonly PreferenceRequest[]) => resource.prefer(requests),
    allocate: (requests: readonly (readonly string[])[]) => claims.allocate(resource, requests),
  }
}

const pod = (uid: string, ...counts: number[]) => ({
  uid,
  name: uid,
  namespace: 'default',
  containers: counts.map((count, index) => ({
    name: `c${index}`,
    resources: { [resource()]: count },
  })),
})
const both = async () => {
  for (const digest of DIGESTS) await serve(digest)
  await eventually(() => expect(ids()).toEqual(['0', '1']))
}

describe('the device plugin of a Configuration', () => {
  it('R2 R15 R21 is registered before any device, and advertises each device', async () => {
    await eventually(() => expect(kubelet.resources).toEqual([resource()]))
    expect(ids()).toEqual([])
    await serve('8120fe')
    await eventually(() => expect(ids()).toEqual(['0']))
    await serve('a19705')
    await eventually(() => expect(ids()).toEqual(['0', '1']))
    await plugins.withdraw(instanceName('8120fe'))
    await eventually(() => expect(ids()).toEqual(['0']))
  })

  describe('whose device is gone while a container uses it', () => {
    const shown = () => [...kubelet.devices(resource())]
    let lost: string

    beforeEach(async () => {
      await both()
      await kubelet.admit(pod('p', 1))
      lost =
        cluster.instances
          .list()
          .find(({ spec }) => Object.values(spec.deviceUsage).includes('C:0:node-a'))
          ?.metadata.name.slice(-6) ?? expect.fail()
    })
    const goAway = async (options: WithdrawOptions) => {
      await plugins.withdraw(instanceName(lost), options)
      await cluster.leaveInstance(key(lost), NODE)
    }

    it('keeps the id as unhealthy until the container ends, and gives others another', async () => {
      await goAway({ isGone: true })
      await eventually(() =>
        expect(shown()).toEqual([
          ['0', false],
          ['1', true],
        ]),
      )
      expect(kubelet.resource(resource())).toEqual({ capacity: 2, allocatable: 1, allocated: 1 })
      await kubelet.admit(pod('q', 1))
      expect(Object.values(held())).toEqual(['C:1:node-a'])
      kubelet.remove('p')
      for (const allocation of ledger.list()) if (allocation.id === '0') ledger.remove(allocation)
      await eventually(() =>
        expect(shown()).toEqual([
          ['0', true],
          ['1', true],
        ]),
      )
    })

    it('has the id as healthy again when the device comes back', async () => {
      await goAway({ isGone: true })
      await eventually(() => expect(shown()[0]).toEqual(['0', false]))
      await serve(lost)
      await cluster.restoreSlot(key(lost), slot(lost, 0), 'C:0:node-a')
      await eventually(() => expect(shown()[0]).toEqual(['0', true]))
      await goAway({})
      await eventually(() => expect(shown()).toEqual([['0', true]]))
    })

    it('keeps the id also if the device went while no agent ran', async () => {
      await goAway({})
      environment.book.lose(configuration.metadata.name, instanceName(lost))
      await eventually(() =>
        expect(shown()).toEqual([
          ['0', false],
          ['1', true],
        ]),
      )
    })
  })

  it('keeps the id of a container healthy while only the Instance is gone', async () => {
    await serve('8120fe')
    await kubelet.admit(pod('p', 1))
    await cluster.leaveInstance(key('8120fe'), NODE)
    await serve('a19705')
    await eventually(() =>
      expect([...kubelet.devices(resource())]).toEqual([
        ['0', true],
        ['1', true],
      ]),
    )
    kubelet.remove('p')
    for (const allocation of ledger.list()) ledger.remove(allocation)
    await eventually(() => expect([...kubelet.devices(resource())]).toEqual([['0', true]]))
  })

  it('R29 R30 keeps the ids of running containers when slots are released', async () => {
    await both()
    await kubelet.admit(pod('p', 1))
    await kubelet.admit(pod('q', 1))
    await kubelet.admit(pod('r', 1))
    await eventually(() => expect(ids()).toHaveLength(4))
    const before = held()
    expect(Object.values(before).sort()).toEqual(['C:0:node-a', 'C:1:node-a', 'C:2:node-a'])
    for (const uid of ['p', 'q']) kubelet.remove(uid)
    for (const each of ledger.list()) if (each.id !== '2') ledger.remove(each)
    for (const [at, usage] of Object.entries(before).filter(([, usage]) => usage !== 'C:2:node-a'))
      await cluster.releaseSlot(
        objectKey('default', at.slice(0, at.lastIndexOf('-'))),
        at as SlotName,
        usage,
      )
    await eventually(() => expect(ids()).toEqual(['0', '1', '2']))
    expect(Object.values(held())).toEqual(['C:2:node-a'])
  })

  it('R5 R6 R10 R38 R40 A18 allocates two devices to a container in one answer', async () => {
    await both()
    const granted = await kubelet.admit(pod('p', 2))
    expect(granted.get('c0')).toMatchObject({
      envs: { CAMERA_8120FE: '8120fe', CAMERA_A19705: 'a19705' },
      mounts: DIGESTS.map((digest) => ({
        containerPath: `/data/${digest}`,
        hostPath: `/srv/${digest}`,
      })),
      devices: DIGESTS.map((digest) => ({ containerPath: `/dev/${digest}`, permissions: 'rw' })),
      annotations: {
        [`akri.agent.slot-${slot('8120fe', 0)}`]: `C:0:${slot('8120fe', 0)}`,
        [`akri.agent.slot-${slot('a19705', 0)}`]: `C:1:${slot('a19705', 0)}`,
      },
    })
    expect(held()).toEqual({ [slot('8120fe', 0)]: 'C:0:node-a', [slot('a19705', 0)]: 'C:1:node-a' })
  })

  it('R16 R19 advertises its claims at both levels', async () => {
    await both()
    await kubelet.admit(pod('p', 1))
    await eventually(() => expect(health('8120fe')).toEqual([false, true]))
    // The claimed one, and one for each device with a free slot.
    await eventually(() => expect(ids()).toEqual(['0', '1', '2']))
  })

  it('R16 R23 follows claims of the Instance level', async () => {
    await both()
    const claim = (index: number) =>
      kubelet.admit({
        ...pod(`i${index}`),
        containers: [{ name: 'c', resources: { [`akri.sh/${instanceName('8120fe')}`]: 1 } }],
      })
    await claim(0)
    expect(ids()).toEqual(['0', '1'])
    await claim(1)
    await eventually(() => expect(ids()).toEqual(['0']))
  })

  it('R7 R84 does not allocate the slot of a container again after a lost claim', async () => {
    await both()
    await kubelet.admit(pod('p', 1))
    const usage = 'C:0:node-a'
    expect(held()).toEqual({ [slot('8120fe', 0)]: usage })
    await cluster.releaseSlot(key('8120fe'), slot('8120fe', 0), usage)
    // A container has "0", and each device has a free slot.
    await eventually(() => expect(ids()).toEqual(['0', '1', '2']))
    await kubelet.admit(pod('q', 1))
    expect(held()).toEqual({ [slot('a19705', 0)]: 'C:1:node-a' })
    expect(ledger.list().map(({ slot: which, id }) => [which, id])).toEqual([
      [slot('8120fe', 0), '0'],
      [slot('a19705', 0), '1'],
    ])
  })

  it('R83 follows claims and releases of other nodes', async () => {
    await both()
    for (const index of [0, 1])
      await cluster.claimSlot(key('a19705'), slot('a19705', index), 'node-b')
    await eventually(() => expect(ids()).toEqual(['0']))
    await cluster.releaseSlot(key('a19705'), slot('a19705', 1), 'node-b')
    // The slot is reserved for the other node for a while.
    await clock.advance('15s')
    await eventually(() => expect(ids()).toEqual(['0', '1']))
  })

  it('R11 R12 R22 refuses an impossible request, and advertises its list again', async () => {
    await serve('8120fe')
    await eventually(() => expect(ids()).toEqual(['0']))
    await kubelet.admit(pod('p', 1))
    await eventually(() => expect(ids()).toEqual(['0', '1']))
    kubelet.remove('p')
    const before = held()
    let lists = 0
    kubelet.onChange(() => lists++, new AbortController().signal)
    // Two ids are free, and both stand for the one device.
    await expect(kubelet.admit(pod('q', 2))).rejects.toThrow(
      /both stand for Instance|2 different devices are requested/,
    )
    expect(held()).toEqual(before)
    await eventually(() => expect(lists).toBeGreaterThan(0))
  })

  it('A17 releases the first claim of a request whose second claim fails', async () => {
    await both()
    let claims = 0
    const plugin = resourceOn({
      claimSlot: (...args) => {
        if (++claims === 2) throw new TypeError('the API server is away')
        return cluster.claimSlot(...args)
      },
    })
    await expect(plugin.allocate([['0', '1']])).rejects.toThrow('the API server is away')
    expect(claims).toBe(2)
    expect(held()).toEqual({})
  })

  it('R31 R37 chooses for each container by itself, and answers with its devices', async () => {
    await both()
    const plugin = resourceOn({})
    await plugin.allocate([['3']])
    const [taken = ''] = Object.keys(held())
    const allocations = await plugin.allocate([['0', '1'], ['3']])
    const slotsOf = (index: number) =>
      Object.entries(allocations[index]?.annotations ?? {}).map(([, value]) => value.split(':'))
    // The first container has both devices. The second has a device of the first, by the slot that
    // it had before.
    expect(slotsOf(0).map(([, id]) => id)).toEqual(['0', '1'])
    expect(allocations[0]?.devices.map(({ hostPath }) => hostPath).sort()).toEqual(
      DIGESTS.map((digest) => `/dev/${digest}`),
    )
    expect(slotsOf(1)).toEqual([['C', '3', taken]])
    expect(allocations[1]?.devices).toHaveLength(1)
    expect(Object.values(held()).sort()).toEqual(['C:0:node-a', 'C:1:node-a', 'C:3:node-a'])
  })

  it('R8 allocates each slot of each Instance once, and then refuses', async () => {
    await both()
    const plugin = resourceOn({})
    for (const id of ['0', '1', '2', '3']) await plugin.allocate([[id]])
    expect(Object.keys(held()).sort()).toEqual(
      DIGESTS.flatMap((digest) => [0, 1].map((index) => slot(digest, index))),
    )
    expect(plugin.advertise()).toHaveLength(4)
    await expect(plugin.allocate([['4']])).rejects.toThrow('0 are available')
  })

  it('R29 offers fewer ids after the slot reconciler has released slots', async () => {
    await both()
    for (const uid of ['p', 'q', 'r']) await kubelet.admit(pod(uid, 1))
    await eventually(() => expect(ids()).toHaveLength(4))
    const kept = Object.entries(held()).find(([, usage]) => usage === 'C:2:node-a')
    for (const uid of ['p', 'q']) kubelet.remove(uid)
    await clock.advance('1m')
    const reconciler = new SlotReconciler({
      cluster,
      kubelet: {
        pods: kubelet.nodePods,
        listAllocated: (signal) => environment.sockets.listAllocated(signal),
      },
      node: NODE,
      clock,
      log: silentLogger,
      claims: environment.claims,
      book: environment.book,
    })
    await reconciler.reconcile(NODE, new AbortController().signal)
    expect(Object.entries(held())).toEqual([kept])
    await eventually(() => expect(ids()).toEqual(['0', '1', '2']))
  })

  it('R7 A20 prefers no free slot that waits for a claim beyond the capacity', async () => {
    await serve('8120fe')
    await cluster.claimSlot(key('8120fe'), slot('8120fe', 1), 'node-b')
    await cluster.updateInstance(key('8120fe'), { capacity: 1 })
    const plugin = resourceOn()
    const request = { available: ['0'], mustInclude: [], size: 1 }
    expect(plugin.prefer([request])).toEqual([[]])
    await expect(plugin.allocate([['0']])).rejects.toThrow('0 are available')
    await cluster.releaseSlot(key('8120fe'), slot('8120fe', 1), 'node-b')
    expect(plugin.prefer([request])).toEqual([['0']])
  })

  it('A16 R84 prefers no id of a device whose slots containers have unrecorded', async () => {
    await serve('8120fe')
    const plugin = resourceOn()
    const request = { available: ['0'], mustInclude: [], size: 1 }
    expect(plugin.prefer([request])).toEqual([['0']])
    for (const index of [0, 1]) {
      const id = slot('8120fe', index)
      ledger.record({ slot: id, resourceName: `akri.sh/${instanceName('8120fe')}`, id })
    }
    expect(plugin.prefer([request])).toEqual([[]])
  })

  it('A17 releases every claim of a request that fails', async () => {
    await both()
    let claims = 0
    const plugin = resourceOn({
      claimSlot: (...args) => {
        if (++claims === 3) throw new TypeError('the API server is away')
        return cluster.claimSlot(...args)
      },
    })
    await expect(plugin.allocate([['0', '1'], ['2']])).rejects.toThrow('the API server is away')
    expect(claims).toBe(3)
    expect(held()).toEqual({})
  })

  it('A17 releases the claims of a failed request also without their Instances', async () => {
    await both()
    let claims = 0
    const plugin = resourceOn({
      claimSlot: (...args) => {
        if (++claims !== 2) return cluster.claimSlot(...args)
        for (const digest of DIGESTS) environment.book.withdraw(servedOf(digest), false)
        throw new TypeError('the API server is away')
      },
    })
    await expect(plugin.allocate([['0', '1']])).rejects.toThrow('the API server is away')
    expect(held()).toEqual({})
  })

  it('R85 chooses again after a lost race, and R33 A16 keeps the slot of an id', async () => {
    await both()
    let faster = true
    const plugin = resourceOn({
      claimSlot: async (at, wanted, by) => {
        if (faster) await cluster.claimSlot(at, wanted, 'node-b')
        faster = false
        return cluster.claimSlot(at, wanted, by)
      },
    })
    await plugin.allocate([['0']])
    const first = held()
    expect(Object.values(first).sort()).toEqual(['C:0:node-a', 'node-b'])
    // A container that starts after the one that has just ended is given its id.
    await plugin.allocate([['0']])
    expect(held()).toEqual(first)
  })

  it('R13 prefers ids of different devices', async () => {
    await both()
    await kubelet.admit(pod('p', 2))
    kubelet.remove('p')
    await eventually(() => expect(ids()).toHaveLength(4))
    // Four ids, two of each device: any two that the kubelet picked by itself could be of one.
    for (let round = 0; round < 5; round++) {
      const answer = await kubelet.admit(pod(`q${round}`, 2))
      expect(answer.get('c0')?.envs).toMatchObject({
        CAMERA_8120FE: '8120fe',
        CAMERA_A19705: 'a19705',
      })
      kubelet.remove(`q${round}`)
    }
  })

  it('R20 stops with its Configuration', async () => {
    await both()
    await plugins.withdrawConfiguration(objectKey('default', name))
    await eventually(() => expect(kubelet.resource(resource()).allocatable).toBe(0))
    expect(kubelet.resource(`akri.sh/${instanceName('8120fe')}`).allocatable).toBe(2)
  })

  it('A8 is refused if an Instance has the same resource name, which stays served', async () => {
    await serve('8120fe')
    const other = {
      key: objectKey('default', instanceName('8120fe')),
      name: instanceName('8120fe') as unknown as Configuration['metadata']['name'],
    }
    await expect(
      plugins.serveConfiguration({ ...other, key: objectKey('elsewhere', 'x') }),
    ).rejects.toThrow(/is the resource of instance default\//)
    await eventually(() => expect(health('8120fe')).toEqual([true, true]))
  })
})

describe('the device plugins of both levels', () => {
  it.each([
    {
      level: 'Instance',
      of: () => `akri.sh/${instanceName('8120fe')}`,
      offered: 2,
      id: /^.+-8120fe-[01]$/,
      value: /^.+-8120fe-[01]$/,
    },
    { level: 'Configuration', of: resource, offered: 1, id: /^0$/, value: /^C:0:.+-8120fe-[01]$/ },
  ])(
    'R14 R100 of a $level registers, lists, allocates, registers again, and stops',
    async (wanted) => {
      const ownOptions = wanted.of()
      const sockets = async () =>
        (await readdir(kubelet.pluginDirectory)).filter((name) =>
          name.startsWith(`akri-${ownOptions.slice(8)}-`),
        )
      await serve('8120fe')
      await eventually(() => expect(kubelet.resource(ownOptions).allocatable).toBe(wanted.offered))
      for (const id of kubelet.devices(ownOptions).keys()) expect(id).toMatch(wanted.id)
      const answer = await kubelet.admit({
        ...pod('p'),
        containers: [{ name: 'c', resources: { [ownOptions]: 1 } }],
      })
      expect(answer.get('c')?.envs).toMatchObject({ CAMERA: '8120fe' })
      const [annotation = ''] = Object.values(answer.get('c')?.annotations ?? {})
      expect(annotation).toMatch(wanted.value)
      expect(Object.keys(held())).toHaveLength(1)
      const before = await sockets()
      await kubelet.restart()
      await eventually(() => expect(kubelet.resource(ownOptions).allocatable).toBe(2))
      const after = await sockets()
      expect(after).not.toEqual(before)
      await plugins.close()
      await eventually(() => expect(kubelet.resource(ownOptions).allocatable).toBe(0))
      expect(await sockets()).toEqual([])
    },
  )
})
