import { readdirSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { systemClock } from '@akrijs/sdk'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { HostAgent } from './support/host-agent.js'
import { NodeAgents } from './support/node-agents.js'
import {
  AVAILABILITY_FILE,
  echoYaml,
  eventually,
  type InstanceState,
  kubeletDirectory,
  missing,
  NODES,
  onNode,
  podYaml,
  unless,
  World,
  workDirectory,
} from './support/world.js'

// One agent for each node of a real Kubernetes, with its real kubelets, scheduler and API server.

describe.skipIf(missing() !== undefined)(`agents on a real cluster${unless}`, { timeout: 120_000 }, () => {
  let world: World
  let agents: NodeAgents

  const identities = (instances: readonly InstanceState[]) =>
    instances.map(({ metadata, spec }) => ({ uid: metadata.uid, generation: metadata.generation, spec }))

  beforeAll(async () => {
    await rm(AVAILABILITY_FILE, { force: true })
    world = await World.open()
    agents = await NodeAgents.start()
  }, 120_000)

  afterEach(async () => {
    await rm(AVAILABILITY_FILE, { force: true })
    await world.clear()
  }, 120_000)

  afterAll(async () => {
    await agents?.dispose()
    await world?.close()
  }, 120_000)

  it('R1 R2 R15 R79 R98 R100 R105 offers a Configuration before it has a device, and then each device', async () => {
    await world.apply(echoYaml('cam', [], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([0, 0]))
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    for (const digest of ['8120fe', 'a19705'])
      await eventually(async () => expect(await world.allocatables(`akri.sh/cam-${digest}`)).toEqual([2, 2]))
    const instances = await world.instances()
    expect(instances.map(({ metadata }) => metadata.name).sort()).toEqual(['cam-8120fe', 'cam-a19705'])
    for (const { spec } of instances) {
      expect(spec.nodes.toSorted()).toEqual([...NODES])
      expect(Object.values(spec.deviceUsage)).toEqual(['', ''])
      expect(spec).toMatchObject({ shared: true, capacity: 2, configurationName: 'cam' })
    }
  })

  it('R3 has an Instance for each node of a device that only that node can see', async () => {
    const udev = { name: 'udev', discoveryDetails: 'udevRules: [KERNEL=="null"]' }
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'nulls' },
        spec: { discoveryHandler: udev },
      }),
    )
    const instances = await eventually(async () => {
      const found = await world.instances()
      expect(found).toHaveLength(2)
      return found
    })
    expect(new Set(instances.map(({ metadata }) => metadata.name)).size).toBe(2)
    expect(instances.flatMap(({ spec }) => spec.nodes).sort()).toEqual([...NODES])
    await eventually(async () => expect(await world.allocatables('akri.sh/nulls')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/nulls': 1 }, { script: 'ls -l $UDEV_DEVNODE; exec sleep 100000' }))
    await eventually(() => world.running('p'))
    await eventually(async () => expect(await world.logs('p')).toMatch(/^crw.* 1, +3 .*\/dev\/null$/))
  })

  it('R5 R6 R10 R32 R38 R60 R106 R113 gives a container that asks for two devices of a Configuration two different ones, and all that they have', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2, { brokerProperties: { SITE: 'north' } }))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('two', { 'akri.sh/cam': 2 }))
    await eventually(() => world.running('two'))
    const env = await eventually(async () => {
      const text = await world.logs('two')
      expect(text).toContain('SITE=')
      return text
    })
    expect(env).toContain('DEBUG_ECHO_DESCRIPTION_8120FE=foo0')
    expect(env).toContain('DEBUG_ECHO_DESCRIPTION_A19705=foo1')
    expect(env).toMatch(/^SITE=north$/m)
    expect(env).toMatch(/^SITE_8120FE=north$/m)
    for (const { spec } of await world.instances()) expect(spec.brokerProperties).toMatchObject({ SITE: 'north' })
    const node = (await world.pods())[0]?.spec.nodeName
    expect(await world.holders()).toEqual([`C:0:${node}`, `C:1:${node}`])
    const usage = await world.usage()
    for (const instance of ['cam-8120fe', 'cam-a19705'])
      expect([0, 1].filter((index) => usage[`${instance}-${index}`] !== '')).toHaveLength(1)
  })

  it('R39 R40 writes each slot into the annotations of the container', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('annotated', { 'akri.sh/cam': 1, 'akri.sh/cam-8120fe': 1 }, { node: 'node-1' }))
    await eventually(() => world.running('annotated'))
    const ids = (await onNode('node-1', 'ctr', '-n', 'k8s.io', 'containers', 'ls', '-q')).trim().split('\n')
    const all = await Promise.all(ids.map((id) => onNode('node-1', 'ctr', '-n', 'k8s.io', 'containers', 'info', id)))
    const own = all.filter((info) => info.includes(world.namespace) && info.includes('annotated'))
    const annotations = own.flatMap((info) => Object.entries(findAnnotations(JSON.parse(info))))
    const usage = await world.usage()
    const wanted = Object.entries(usage).map(([slot, holder]) => [
      `akri.agent.slot-${slot}`,
      holder.startsWith('C:') ? `${holder.slice(0, holder.lastIndexOf(':'))}:${slot}` : slot,
    ])
    expect(annotations.sort()).toEqual(wanted.sort())
  })

  it('R4 R12 R13 R41 R48 R76 keeps Pods that ask for more than there is pending, and they take no slot', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('three', { 'akri.sh/cam': 3 }))
    await world.apply(podYaml('pair', { 'akri.sh/cam-8120fe': 1, 'akri.sh/cam-a19705': 1 }))
    await eventually(() => world.running('pair'))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([0, 0]))
    await world.apply(podYaml('late', { 'akri.sh/cam-8120fe': 1 }))
    await eventually(async () => expect(await world.phases()).toEqual({ three: 'Pending', pair: 'Running', late: 'Pending' }))
    expect(await world.holders()).toHaveLength(2)
  })

  it('R77 R83 R90 gives the slot of a Pod that went to one that waits, within seconds', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam-8120fe')).toEqual([1, 1]))
    await world.apply(podYaml('first', { 'akri.sh/cam-8120fe': 1 }))
    await eventually(() => world.running('first'))
    const holder = (await world.pods())[0]?.spec.nodeName ?? ''
    expect(await world.holders()).toEqual([holder])
    // The other node says so to its kubelet.
    const other = NODES.find((node) => node !== holder) ?? NODES[0]
    await eventually(async () => expect(await world.allocatable(other, 'akri.sh/cam-8120fe')).toBe(0))
    await world.apply(podYaml('second', { 'akri.sh/cam-8120fe': 1 }))
    await world.remove('Pod', 'first')
    await eventually(() => world.running('second'), 15_000)
    expect(await world.holders()).toEqual([
      (await world.pods()).find(({ metadata }) => metadata.name === 'second')?.spec.nodeName,
    ])
  })

  it('R90 A14 frees the slot of a Pod that has finished, of both levels, while it is still listed', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('il', { 'akri.sh/cam-8120fe': 1 }, { script: 'sleep 1' }))
    // Any device would do for the other one, also this one's.
    await eventually(async () => expect((await world.phases()).il).not.toBe('Pending'))
    await world.apply(podYaml('cl', { 'akri.sh/cam': 1 }, { script: 'sleep 1' }))
    await eventually(async () => expect(await world.phases()).toEqual({ il: 'Succeeded', cl: 'Succeeded' }))
    await eventually(async () => expect(await world.holders()).toEqual([]), 5000)
  })

  it.each([
    ['on both nodes', undefined],
    // As soon as they end, the node offers less again than its scheduler may still think: an id for each device.
    ['on one node', NODES[0]],
  ])('A16 R33 refuses no Pod where a device is free: one right after the other, many at once, %s', async (_, node) => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([3, 3]))
    for (let round = 0; round < 3; round++) {
      const names = Array.from({ length: 6 }, (_, index) => `p${round}-${index}`)
      const options = { script: 'sleep 1', graceSeconds: 0, ...(node === undefined ? {} : { node }) }
      await Promise.all(names.map((name) => world.apply(podYaml(name, { 'akri.sh/cam': 1 }, options))))
      await eventually(async () => {
        const own = (await world.pods()).filter(({ metadata }) => names.includes(metadata.name))
        // With the message: it says who refused what.
        expect(own.filter(({ status }) => status.phase === 'Failed').map(({ status }) => status)).toEqual([])
        for (const { status } of own) expect(status.phase).toBe('Succeeded')
      })
    }
    expect(await world.refused()).toEqual([])
  })

  it('A6 A19 A20 R7 follows edits of capacity, details and properties, and leaves what runs alone', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam-8120fe')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam-8120fe': 1 }, { node: 'node-1' }))
    await eventually(() => world.running('p'))
    const uid = (await world.instances())[0]?.metadata.uid
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, { brokerProperties: { SITE: 'south' } }))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await eventually(async () => expect(await world.allocatable('node-2', 'akri.sh/cam-8120fe')).toBe(2))
    await world.apply(podYaml('q', { 'akri.sh/cam-8120fe': 1 }, { node: 'node-2' }))
    await eventually(async () => expect(await world.logs('q')).toContain('SITE=south'))
    // Lowered below what is held: nothing is taken away, and nothing new is given.
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () =>
      expect(Object.values((await world.instances())[0]?.spec.deviceUsage ?? {}).filter(Boolean)).toHaveLength(2),
    )
    await eventually(async () => expect(await world.allocatable('node-2', 'akri.sh/cam-a19705')).toBe(1))
    expect((await world.instances()).find(({ metadata }) => metadata.name === 'cam-8120fe')?.metadata.uid).toBe(uid)
    await world.running('p', 'q')
    await world.remove('Configuration', 'cam')
    await eventually(async () => expect(await world.instances()).toEqual([]))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam-8120fe')).toEqual([0, 0]))
    // Pods that somebody made himself go on.
    await world.running('p', 'q')
  })

  it('R17 R46 R47 loses a device that goes and finds it when it is back', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await writeFile(AVAILABILITY_FILE, 'OFFLINE')
    await eventually(async () => expect(await world.instances()).toEqual([]))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([0, 0]))
    await rm(AVAILABILITY_FILE)
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
  })

  it('A2 A3 keeps Pods, Instances and slots over kill -9 of the agent, and offers devices again at once', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 2 }, { node: 'node-1' }))
    await eventually(() => world.running('p'))
    await eventually(async () => expect(await world.holders()).toEqual(['C:0:node-1', 'C:1:node-1']))
    const before = identities(await world.instances())
    const pods = (await world.pods()).map(({ metadata }) => metadata.uid)
    for (let round = 0; round < 3; round++) {
      await agents.on('node-1').stop('SIGKILL')
      agents.on('node-1').start()
      await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam-a19705')).toBe(1))
    }
    // Longer than a slot is given to a container that starts.
    await systemClock.sleep(3000)
    expect(identities(await world.instances())).toEqual(before)
    expect((await world.pods()).map(({ metadata }) => metadata.uid)).toEqual(pods)
    await world.running('p')
    // Of the sockets of those that were killed none is left.
    const sockets = () =>
      readdirSync(path.join(kubeletDirectory('node-1'), 'device-plugins')).filter((name) => name.startsWith('akri-'))
    await eventually(() => expect(sockets()).toHaveLength(3))
  })

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'A2 is exchanged: one beside another that runs leaves it alone and ends, and serves once that one has ended by %s',
    async (signal) => {
      const old = agents.on('node-1')
      const young = HostAgent.beside(old)
      try {
        await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
        await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
        await world.apply(podYaml('p', { 'akri.sh/cam': 1, 'akri.sh/cam-a19705': 1 }, { node: 'node-1' }))
        await eventually(() => world.running('p'))
        await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam')).toBe(3))
        const before = identities(await world.instances())
        const registered = await world.registrations('node-1')
        for (let round = 0; round < 3; round++) {
          young.start()
          await eventually(() => expect(young.exitCode).toBe(1))
        }
        expect(young.output).toContain('agent-registration.sock is served by another process already')
        expect(await world.registrations('node-1')).toBe(registered)
        await old.stop(signal)
        young.start()
        // Once for each plugin.
        await eventually(async () => expect(await world.registrations('node-1')).toBe(registered + 3), 10_000)
        await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam')).toBe(3), 10_000)
        expect(identities(await world.instances())).toEqual(before)
        await world.apply(podYaml('q', { 'akri.sh/cam': 2 }, { node: 'node-1' }))
        await eventually(() => world.running('p', 'q'))
      } finally {
        await young.stop()
        old.start()
      }
    },
  )

  it('R99 A10 puts back what somebody has edited of an Instance, and makes the Instance anew that somebody has deleted', async () => {
    const name = 'cam-8120fe'
    await world.apply(echoYaml('cam', ['foo0'], 2, { brokerProperties: { SITE: 'north' } }))
    await eventually(async () => expect(await world.allocatables(`akri.sh/${name}`)).toEqual([2, 2]))
    await world.apply(podYaml('p', { [`akri.sh/${name}`]: 1 }, { node: 'node-1' }))
    await eventually(() => world.running('p'))
    const instance = async () => (await world.get<InstanceState>('Instance', name)) ?? expect.fail('there is no Instance')
    const { metadata, spec } = await instance()
    const edits = [{ nodes: [] }, { capacity: 5 }, { brokerProperties: { SITE: 'south', DOOR: 'open' } }]
    for (const edit of edits) {
      await world.api('Instance').patch(world.key(name), 'merge', { spec: edit })
      await eventually(async () => {
        const now = await instance()
        expect({ ...now.spec, nodes: now.spec.nodes.toSorted() }).toEqual({ ...spec, nodes: [...NODES] })
      }, 10_000)
    }
    // What is left out is free, and what is no slot of the Instance is nobody's.
    const free = Object.keys(spec.deviceUsage).find((slot) => spec.deviceUsage[slot] === '') ?? expect.fail('no slot is free')
    await world.api('Instance').patch(world.key(name), 'merge', { spec: { deviceUsage: { [free]: null, 'cam-8120fe-x': '' } } })
    await world.apply(podYaml('q', { [`akri.sh/${name}`]: 1 }, { node: 'node-2' }))
    await eventually(() => world.running('p', 'q'))
    expect((await instance()).spec.deviceUsage).toMatchObject({ ...spec.deviceUsage, [free]: 'node-2' })
    await world.remove('Pod', 'q')
    await world.remove('Pod', 'p')
    await eventually(async () => expect(await world.holders()).toEqual([]))
    await world.remove('Instance', name)
    await eventually(async () => {
      const now = await instance()
      expect(now.metadata.uid).not.toBe(metadata.uid)
      expect(now.spec.nodes.toSorted()).toEqual([...NODES])
    }, 10_000)
    await world.apply(podYaml('r', { [`akri.sh/${name}`]: 1 }))
    await eventually(() => world.running('r'))
  })

  it('R91 frees the slots of Pods that went by what the container runtime says, where that is wanted', async () => {
    // The node's /run is its own: the runtime is reached through its first process.
    const pid = (await readFile(path.join(workDirectory, 'nodes/node-2/pid'), 'utf8')).trim()
    const other = await HostAgent.create('node-2', { AKRI_CRI_SOCKET: `/proc/${pid}/root/run/containerd/containerd.sock` })
    await agents.on('node-2').stop()
    other.start()
    try {
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
      await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
      await world.apply(podYaml('il', { 'akri.sh/cam-8120fe': 1 }, { node: 'node-2' }))
      // Any device would do for the other one, also this one's.
      await eventually(() => world.running('il'))
      await world.apply(podYaml('cl', { 'akri.sh/cam': 1 }, { node: 'node-2' }))
      await eventually(() => world.running('il', 'cl'))
      // Several rounds of looking: what runs keeps what it has.
      const rounds = () => other.output.split('reclaiming unused slots').length
      expect(other.output).not.toContain('cannot look for unused slots')
      expect(rounds()).toBeGreaterThanOrEqual(1)
      expect(await world.holders()).toHaveLength(2)
      await world.remove('Pod', 'il')
      await eventually(async () => expect((await world.holders()).filter((holder) => holder === 'node-2')).toEqual([]), 20_000)
      expect(await world.holders()).toHaveLength(1)
      await world.remove('Pod', 'cl')
      await eventually(async () => expect(await world.holders()).toEqual([]), 20_000)
    } finally {
      await other.dispose()
      agents.on('node-2').start()
    }
  })

  it('A21 registers anew with a kubelet that restarts, and changes nothing', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: 'node-1' }))
    await eventually(() => world.running('p'))
    const before = identities(await world.instances())
    await onNode('node-1', '--restart', 'kubelet')
    await eventually(() => expect(agents.on('node-1').output).toMatch(/the kubelet restarted/))
    await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam-8120fe')).toBe(1))
    await world.apply(podYaml('q', { 'akri.sh/cam-8120fe': 1 }, { node: 'node-1' }))
    await eventually(() => world.running('p', 'q'))
    const after = identities(await world.instances())
    expect(after[0]?.uid).toBe(before[0]?.uid)
    expect(await world.holders()).toEqual(['C:0:node-1', 'node-1'])
  })

  it('keeps what a node has whose kubelet is silent, gives the rest to others, and goes on when it is back', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: 'node-2' }))
    await eventually(() => world.running('p'))
    const before = identities(await world.instances())
    await onNode('node-2', '--restart', 'kubelet', 'STOP')
    try {
      await eventually(async () => expect(await world.isReady('node-2')).toBe(false))
      expect(identities(await world.instances())).toEqual(before)
      await world.apply(podYaml('q', { 'akri.sh/cam': 1 }, { node: 'node-1' }))
      await eventually(async () => expect(await world.holders()).toEqual(['C:0:node-1', 'C:0:node-2']))
      await eventually(async () => expect((await world.phases()).q).toBe('Running'))
    } finally {
      await onNode('node-2', '--restart', 'kubelet', 'CONT')
    }
    await eventually(async () => expect(await world.isReady('node-2')).toBe(true))
    await world.running('p', 'q')
    expect(await world.holders()).toEqual(['C:0:node-1', 'C:0:node-2'])
  })

  it('A7 follows a Secret: a missing one shows in the status, a changed one is sent anew', async () => {
    const from = { valueFrom: { secretKeyRef: { name: 'lab', key: 'token' } } }
    const echo = {
      name: 'debugEcho',
      discoveryDetails: 'descriptions: [foo0]',
      discoveryProperties: [{ name: 'token', ...from }],
    }
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'cam' },
        spec: { discoveryHandler: echo },
      }),
    )
    const condition = async (type: string) => {
      const found = await world.get<{
        status?: { conditions: { type: string; status: string; reason: string; message: string }[] }
      }>('Configuration', 'cam')
      return found?.status?.conditions.find((one) => one.type === type)
    }
    await eventually(async () =>
      expect(await condition('Discovering')).toMatchObject({
        status: 'False',
        reason: 'MissingProperty',
        message: expect.stringContaining(`there is no Secret ${world.namespace}/lab`),
      }),
    )
    expect(await world.instances()).toEqual([])
    await world.apply(
      JSON.stringify({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'lab' }, stringData: { token: 's3cret-word' } }),
    )
    await eventually(async () => expect(await world.instances()).toHaveLength(1))
    await eventually(async () => expect(await condition('Ready')).toMatchObject({ status: 'True' }))
    for (const one of agents.all) expect(one.output).not.toContain('s3cret-word')
  })

  it('A8 refuses the second of two Configurations of one name, in its status, and serves it when the first has gone', async () => {
    const other = await World.open()
    try {
      await world.apply(echoYaml('cam', ['foo0'], 1))
      await eventually(async () => expect(await world.instances()).toHaveLength(1))
      // Times of creation are whole seconds.
      await systemClock.sleep(1100)
      await other.apply(echoYaml('cam', ['foo1'], 1))
      await eventually(async () => {
        const found = await other.get<{ status?: { conditions: { type: string; reason: string; message: string }[] } }>(
          'Configuration',
          'cam',
        )
        expect(found?.status?.conditions.find(({ type }) => type === 'Ready')).toMatchObject({
          reason: 'NameTaken',
          message: expect.stringContaining(world.namespace),
        })
      })
      expect(await other.instances()).toEqual([])
      await world.remove('Configuration', 'cam')
      await eventually(async () => expect((await other.instances()).map(({ metadata }) => metadata.name)).toEqual(['cam-a19705']))
    } finally {
      await other.close()
    }
  })

  it('says in the status what is wrong with details, and goes on with the rest', async () => {
    await world.apply(echoYaml('good', ['foo0'], 1))
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'bad' },
        spec: { discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [KERNEL="null"]' } },
      }),
    )
    await eventually(async () => {
      const found = await world.get<{ status?: { conditions: { type: string; reason: string; message: string }[] } }>(
        'Configuration',
        'bad',
      )
      expect(found?.status?.conditions.find(({ type }) => type === 'Discovering')).toMatchObject({
        reason: 'InvalidDetails',
        message: expect.stringContaining('udevRules[0]'),
      })
    })
    await eventually(async () => expect((await world.instances()).map(({ spec }) => spec.configurationName)).toEqual(['good']))
  })
})

/** The annotations that the kubelet passed on, wherever the runtime keeps them. */
function findAnnotations(info: unknown): Record<string, string> {
  const found: Record<string, string> = {}
  const visit = (value: unknown) => {
    // containerd keeps what the kubelet asked for as JSON in base64.
    if (typeof value === 'string' && decoded(value).includes('akri.agent.slot-')) visit(JSON.parse(decoded(value)))
    if (typeof value !== 'object' || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      if (key.startsWith('akri.agent.slot-') && typeof inner === 'string') found[key] = inner
      else visit(inner)
    }
  }
  visit(info)
  return found
}

function decoded(text: string): string {
  return Buffer.from(text, 'base64').toString('utf8')
}
