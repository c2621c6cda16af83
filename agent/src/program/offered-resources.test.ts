import path from 'node:path'
import type { ConfigurationName, Offer } from '@akrijs/api'
import type { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { FakeApiServer } from '@akrijs/kube/testing'
import { type Clock, silentLogger, systemClock } from '@akrijs/runtime'
import { defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import type { Cluster } from '../cluster/cluster.js'
import { KubernetesCluster } from '../cluster/kubernetes-cluster.js'
import { deviceDigest } from '../instances/instance-name.js'
import type { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { collidingIds } from '../testing/colliding-ids.js'
import type { MemoryCluster } from '../testing/memory-cluster.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { configurationWith, manifest } from '../testing/objects.js'
import { type Agent, startAgent } from './agent.js'

const NODE = 'node-a' as NodeName
const IDS = collidingIds(NODE)

let home: NodeEnvironment
let directory: string
let cluster: MemoryCluster
let kubelet: SimulatedKubelet
let sockets: KubeletSockets
let agent: Agent

beforeEach(async () => {
  home = await NodeEnvironment.open()
  ;({ directory, cluster, kubelet, sockets } = home)
  agent = await start()
})

afterEach(async () => {
  await agent.close()
  await home.close()
})

const handler = defineDiscoveryHandler({
  name: 'twins',
  shared: false,
  details: z.object({ ids: z.array(z.string()) }),
  async *discover({ details }) {
    yield details.ids.map((id) => ({ id, properties: { SERIAL: id } }))
  },
})

const start = (of: Cluster = cluster, clock: Clock = systemClock) =>
  startAgent({
    cluster: of,
    kubelet: sockets,
    clock,
    log: silentLogger,
    node: NODE,
    handlersDirectory: directory,
    checkpointFile: path.join(directory, 'checkpoint.json'),
    embedded: [{ name: 'twins', load: async () => handler }],
    slotGraceMs: 0,
  })

const details = (ids: readonly string[]) => ({
  discoveryHandler: {
    name: 'twins',
    discoveryDetails: JSON.stringify({ ids }),
    discoveryProperties: [],
  },
})

const pod = (uid: string, wants: Record<string, number>) => ({
  uid,
  name: uid,
  namespace: 'default',
  containers: [{ name: 'main', resources: wants }],
})

it('two devices with one short digest have both resources, also after a restart', async () => {
  const wanted = manifest({ ...details(IDS), capacity: 2 })
  const apply = (ids: readonly string[]) =>
    cluster.apply({ ...wanted, spec: { ...wanted.spec, ...details(ids) } })
  await apply(IDS)
  const place = { shared: false, node: NODE } as const
  const digests = [deviceDigest(IDS[0], place), deviceDigest(IDS[1], place, 'long')]
  const [short = '', long = ''] = digests.map((digest) => `${wanted.name}-${digest}`)
  const resources = [short, long].map((name) => `akri.sh/${name}`)
  const both = `akri.sh/${wanted.name}`
  const offered = () =>
    [...resources, both].map((resource) => kubelet.resource(resource).allocatable)
  await eventually(() => expect(offered()).toEqual([2, 2, 2]))
  const instance = () => cluster.instances.get(objectKey('default', long))
  expect(instance()?.spec.cdiName).toBe(`${both}=${digests[1]}`)

  const byInstance = await kubelet.admit(
    pod('a', Object.fromEntries(resources.map((name) => [name, 1]))),
  )
  const suffixed = Object.fromEntries(
    IDS.map((id, index) => [`SERIAL_${digests[index]?.toUpperCase()}`, id]),
  )
  expect(byInstance.get('main')?.envs).toMatchObject({ ...suffixed, SERIAL: expect.any(String) })
  const byConfiguration = await kubelet.admit(pod('b', { [both]: 2 }))
  expect(byConfiguration.get('main')?.envs).toMatchObject(suffixed)
  const usage = () => Object.values(instance()?.spec.deviceUsage ?? {}).sort()
  const claims = [expect.stringMatching(/^C:.:node-a$/), NODE]
  expect(usage()).toEqual(claims)

  // The first device goes while the agent is away: the second device keeps its name and claims.
  await agent.close()
  await apply(IDS.slice(1))
  agent = await start()
  await eventually(() => expect(cluster.instances.list()).toHaveLength(1))
  expect(instance()?.metadata.name).toBe(long)
  expect(usage()).toEqual(claims)
  // A deleted Instance has them again, by the same name.
  await cluster.leaveInstance(objectKey('default', long), NODE)
  await eventually(() => expect(usage()).toEqual(claims))
  await kubelet.remove('a')
  await kubelet.remove('b')
  await eventually(() => expect(usage()).toEqual(['', '']))
})

it('the resource of an Instance goes with its offer, and claims of containers stay', async () => {
  const wanted = manifest({ ...details(['foo']), capacity: 3 })
  const apply = (offer: Offer) => cluster.apply({ ...wanted, spec: { ...wanted.spec, offer } })
  await apply('both')
  const both = `akri.sh/${wanted.name}`
  const own = `${both}-${deviceDigest('foo', { shared: false, node: NODE })}`
  const offered = () => [both, own].map((resource) => kubelet.resource(resource).allocatable)
  await eventually(() => expect(offered()).toEqual([1, 3]))
  await kubelet.admit(pod('a', { [own]: 1 }))
  await kubelet.admit(pod('b', { [both]: 1 }))
  const usage = () =>
    Object.values(cluster.instances.list()[0]?.spec.deviceUsage ?? {})
      .filter((claim) => claim !== '')
      .sort()
  expect(usage()).toEqual(['C:0:node-a', NODE])
  const [before] = cluster.instances.list()

  await apply('configuration')
  await eventually(() => expect(agent.plugins.resources).toEqual([both]))
  await eventually(() => expect(offered()).toEqual([2, 0]))
  expect(cluster.instances.list()).toEqual([before])
  await kubelet.admit(pod('c', { [both]: 1 }))
  expect(usage()).toEqual(['C:0:node-a', 'C:1:node-a', NODE])
  // The slot of the resource that is gone is released as any other slot.
  kubelet.remove('a')
  await eventually(() => expect(usage()).toEqual(['C:0:node-a', 'C:1:node-a']))

  // After a restart too, this node offers what the Configuration asks for.
  await agent.close()
  agent = await start()
  await eventually(() => expect(agent.plugins.resources).toEqual([both]))
  await apply('instance')
  await eventually(() => expect(agent.plugins.resources).toEqual([own]))
  await eventually(() => expect(kubelet.resource(own).allocatable).toBe(1))
  expect(usage()).toEqual(['C:0:node-a', 'C:1:node-a'])
  kubelet.remove('b')
  await eventually(() => expect(usage()).toEqual(['C:1:node-a']))
  await apply('both')
  await eventually(() => expect(offered()).toEqual([2, 2]))
})

it('A24 devices are offered without a pause for each of them', async () => {
  await agent.close()
  // Time stands still.
  agent = await start(cluster, new ManualClock())
  const ids = Array.from({ length: 30 }, (_, index) => `device-${index}`)
  const wanted = manifest({ ...details(ids), capacity: 1 })
  await cluster.apply(wanted)
  await eventually(() => expect(agent.plugins.resources).toHaveLength(31))
  await eventually(() => {
    const offered = agent.plugins.resources.map((name) => kubelet.resource(name).allocatable)
    expect(offered.filter((count) => count === 1)).toHaveLength(30)
    expect(kubelet.resource(`akri.sh/${wanted.name}`).allocatable).toBe(30)
  })
})

it('A25 a Configuration that cannot be parsed stops no other, also after a restart', async () => {
  await agent.close()
  const server = new FakeApiServer(systemClock)
  const client = await server.open()
  const put = (name: string, spec: object) => {
    const object = configurationWith({}, { name: name as ConfigurationName, uid: name })
    const path = `/apis/akri.sh/v0/namespaces/default/configurations/${name}`
    server.put(path, { ...object, spec: { ...object.spec, ...spec } })
  }
  server.put(`/api/v1/nodes/${NODE}`, { metadata: { name: NODE } })
  put('lab', details(['foo']))
  put('odd', { ...details(['foo']), brokerSpec: { brokerRobotSpec: {} } })
  put('bare', { ...details(['foo']), brokerProperties: null, discoveryHandler: null })
  const place = { shared: false, node: NODE } as const
  const resources = ['akri.sh/lab', `akri.sh/lab-${deviceDigest('foo', place)}`]
  for (let round = 0; round < 2; round++) {
    const real = new KubernetesCluster({
      client,
      clock: systemClock,
      log: silentLogger,
      node: NODE,
    })
    real.start()
    agent = await start(real)
    await eventually(() => expect(agent.plugins.resources.toSorted()).toEqual(resources))
    await agent.close()
    await real.close()
  }
  await server.close()
  agent = await start()
})
