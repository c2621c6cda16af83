import type { ConfigurationName, Offer } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { defineDiscoveryHandler } from '@akrijs/sdk/handler'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import { deviceDigest } from '../instances/instance-name.js'
import { FakeKubernetes } from '../testing/fake-kubernetes.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { configurationWith, manifest } from '../testing/objects.js'
import type { AgentOptions } from './agent.js'

const NODE = 'node-a' as NodeName

let home: NodeEnvironment

beforeEach(async () => {
  home = await NodeEnvironment.open()
  await start()
})

afterEach(() => home.close())

const handler = defineDiscoveryHandler({
  name: 'listed',
  shared: false,
  details: z.object({ ids: z.array(z.string()) }),
  async *discover({ details }) {
    yield details.ids.map((id) => ({ id }))
  },
})

const start = (options: Partial<AgentOptions> = {}) =>
  home.start({
    embedded: [{ name: 'listed', load: async () => handler }],
    slotGraceMs: 0,
    ...options,
  })

const details = (ids: readonly string[]) => ({
  discoveryHandler: {
    name: 'listed',
    discoveryDetails: JSON.stringify({ ids }),
    discoveryProperties: [],
  },
})

it('the resource of an Instance goes with its offer, and claims of containers stay', async () => {
  const wanted = manifest({ ...details(['foo']), capacity: 3 })
  const apply = (offer: Offer) => home.cluster.apply({ ...wanted, spec: { ...wanted.spec, offer } })
  await apply('both')
  const both = `akri.sh/${wanted.name}`
  const own = `${both}-${deviceDigest('foo', { shared: false, node: NODE })}`
  const offered = () => home.allocatable(both, own)
  await eventually(() => expect(offered()).toEqual([1, 3]))
  await home.admit('a', own)
  await home.admit('b', both)
  const usage = () =>
    Object.values(home.cluster.instances.list()[0]?.spec.deviceUsage ?? {})
      .filter((claim) => claim !== '')
      .sort()
  expect(usage()).toEqual(['C:0:node-a', NODE])
  const [before] = home.cluster.instances.list()

  await apply('configuration')
  await eventually(() => expect(home.agent.plugins.resources).toEqual([both]))
  await eventually(() => expect(offered()).toEqual([2, 0]))
  expect(home.cluster.instances.list()).toEqual([before])
  await home.admit('c', both)
  expect(usage()).toEqual(['C:0:node-a', 'C:1:node-a', NODE])
  // The slot of the resource that is gone is released as any other slot.
  home.kubelet.remove('a')
  await eventually(() => expect(usage()).toEqual(['C:0:node-a', 'C:1:node-a']))

  // After a restart too, this node offers what the Configuration asks for.
  await start()
  await eventually(() => expect(home.agent.plugins.resources).toEqual([both]))
  await apply('instance')
  await eventually(() => expect(home.agent.plugins.resources).toEqual([own]))
  await eventually(() => expect(home.allocatable(own)).toEqual([1]))
  expect(usage()).toEqual(['C:0:node-a', 'C:1:node-a'])
  home.kubelet.remove('b')
  await eventually(() => expect(usage()).toEqual(['C:1:node-a']))
  await apply('both')
  await eventually(() => expect(offered()).toEqual([2, 2]))
})

it('A24 devices are offered without a pause for each of them', async () => {
  // Time stands still.
  await start({ clock: new ManualClock() })
  const ids = Array.from({ length: 30 }, (_, index) => `device-${index}`)
  const wanted = manifest({ ...details(ids), capacity: 1 })
  await home.cluster.apply(wanted)
  await eventually(() => expect(home.agent.plugins.resources).toHaveLength(31))
  await eventually(() => {
    const offered = home.allocatable(...home.agent.plugins.resources)
    expect(offered.sort((a, b) => a - b)).toEqual([...Array(30).fill(1), 30])
  })
})

it('A25 a Configuration that cannot be parsed stops no other, also after a restart', async () => {
  await home.stop()
  const kubernetes = await FakeKubernetes.open()
  const put = (name: string, spec: object) => {
    const object = configurationWith({}, { name: name as ConfigurationName, uid: name })
    const path = `/apis/akri.sh/v0/namespaces/default/configurations/${name}`
    kubernetes.server.put(path, { ...object, spec: { ...object.spec, ...spec } })
  }
  kubernetes.server.put(`/api/v1/nodes/${NODE}`, { metadata: { name: NODE } })
  put('lab', details(['foo']))
  put('odd', { ...details(['foo']), brokerSpec: { brokerRobotSpec: {} } })
  put('bare', { ...details(['foo']), brokerProperties: null, discoveryHandler: null })
  const place = { shared: false, node: NODE } as const
  const resources = ['akri.sh/lab', `akri.sh/lab-${deviceDigest('foo', place)}`]
  for (let round = 0; round < 2; round++) {
    await start({ cluster: kubernetes.start(NODE) })
    await eventually(() => expect(home.agent.plugins.resources.toSorted()).toEqual(resources))
    await home.stop()
  }
  await kubernetes.close()
})
