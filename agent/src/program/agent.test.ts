import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { ConfigurationName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { RegistrationClient } from '@akrijs/proto/discovery'
import { aborted } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { defineDiscoveryHandler } from '@akrijs/sdk/handler'
import { credentials } from '@grpc/grpc-js'
import { beforeEach, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import { listenerWarnings } from '../../../test/support/listener-warnings.js'
import { Discovery } from '../discovery/discovery.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { manifest } from '../testing/objects.js'
import { serveHandler } from '../testing/served-handler.js'
import { listenOn } from '../testing/sockets.js'
import type { AgentOptions } from './agent.js'
import { AgentMetrics } from './metrics.js'

let home: NodeEnvironment
let metrics: AgentMetrics

beforeEach(async () => {
  home = await NodeEnvironment.open()
  const { configurations, instances } = home.cluster
  metrics = new AgentMetrics('node-a', { configurations, instances, silentForMs: 0 })
})

/** Lists `foo0` and so on; throws a TypeError if `found` is false. */
const handler = defineDiscoveryHandler({
  name: 'told',
  shared: true,
  details: z.object({ found: z.boolean(), devices: z.number().default(1) }),
  async *discover({ details }) {
    if (!details.found) throw new TypeError('no such bus')
    yield Array.from({ length: details.devices }, (_, index) => ({ id: `foo${index}` }))
  },
})

/** A Configuration of that handler. */
const wanted = (discoveryDetails: string, name = 'told') =>
  manifest({ discoveryHandler: { name, discoveryDetails, discoveryProperties: [] } })

const start = (load = async () => handler, options: Partial<AgentOptions> = {}) =>
  home.start({ observer: metrics, embedded: [{ name: 'told', load }], ...options })

const offers = (resource: string, count: number) =>
  eventually(() => expect(home.allocatable(resource)).toEqual([count]))

/** The values of the metrics with these names and labels, in the Prometheus format. */
async function measured(...lines: readonly string[]): Promise<(number | undefined)[]> {
  const text = await metrics.registry.metrics()
  return lines.map((line) => {
    const found = text.split('\n').find((metric) => metric.startsWith(`${line} `))
    return found === undefined ? undefined : Number(found.slice(line.length + 1))
  })
}

it('A23 an agent counts what happens, from the first list to the last release', async () => {
  const [good, bad] = [wanted('found: true'), wanted('found: false')]
  await start()
  metrics.agent = home.agent
  await home.cluster.apply(good, bad)
  const resource = `akri.sh/${good.name}-8120fe`
  await offers(resource, 1)
  await eventually(async () =>
    expect(
      await measured(
        `akri_instance_count{configuration="${good.name}",is_shared="true"}`,
        `akri_discovery_response_time_count{configuration="${good.name}"}`,
        'akri_discovery_response_result{discovery_handler_name="told",result="Success"}',
        'akri_plugin_registrations_total{result="accepted"}',
        'akri_handler_endpoints',
      ),
    ).toEqual([1, 1, 1, 3, 1]),
  )
  const failed = 'akri_discovery_response_result{discovery_handler_name="told",result="Fail"}'
  await eventually(async () => expect((await measured(failed))[0]).toBeGreaterThan(0))

  await home.admit('p', resource)
  const held = `akri_slots{configuration="${good.name}",holder="this_node"}`
  expect(
    await measured(
      'akri_allocations_total{level="instance",result="granted"}',
      'akri_slot_claims_total{level="instance",outcome="claimed"}',
      held,
      'akri_slot_reclaims_total',
    ),
  ).toEqual([1, 1, 1, 0])
  home.kubelet.remove('p')
  await eventually(async () =>
    expect(await measured(held, 'akri_slot_reclaims_total')).toEqual([0, 1]),
  )
})

it('an agent with many Configurations adds few listeners to each signal', async () => {
  const many = Array.from({ length: 30 }, (_, index) =>
    wanted('found: true', index % 2 === 0 ? 'told' : 'remote'),
  )
  const warnings = await listenerWarnings(async () => {
    await start()
    await serveHandler('remote', home.directory, () => [{ id: 'foo0' }])
    await home.cluster.apply(...many)
    for (const { name } of many) await offers(`akri.sh/${name}`, 1)
    await home.cluster.apply(...many.slice(0, 3))
    await eventually(() => expect(home.cluster.instances.list()).toHaveLength(3))
    await home.stop()
  })
  expect(warnings).toEqual([])
})

it('an agent shows a bug of one object as InternalError, and serves all others', async () => {
  const details = {
    broken: 'found: false',
    poisoned: '{ found: true, devices: 2 }',
    good: 'found: true',
  }
  const create = home.cluster.createInstance.bind(home.cluster)
  const creating = vi.spyOn(home.cluster, 'createInstance').mockImplementation(async (draft) => {
    if (draft.name === 'poisoned-8120fe') throw new TypeError('poisoned device')
    return create(draft)
  })
  const shows = (name: string, condition: RegExp) => {
    const { conditions = [] } = home.cluster.statuses.get(objectKey('default', name)) ?? {}
    const texts = conditions.map(
      ({ type, status, reason, message }) => `${type} ${status} ${reason}: ${message}`,
    )
    expect(texts).toContainEqual(expect.stringMatching(condition))
  }
  await start()
  await home.cluster.apply(
    ...Object.entries(details).map(([name, text]) => ({
      ...wanted(text),
      name: name as ConfigurationName,
    })),
  )
  await eventually(() => {
    shows('broken', /^Discovering False InternalError: .*no such bus/)
    shows('poisoned', /^Ready False InternalError: .*poisoned device/)
    shows('good', /^Ready True AllDevicesServed: /)
    expect(home.allocatable('akri.sh/good-8120fe', 'akri.sh/poisoned-a19705')).toEqual([1, 1])
  })
  creating.mockRestore()
  await eventually(() => shows('poisoned', /^Ready True AllDevicesServed/))
})

it('A24 devices are offered without a pause for each of them', async () => {
  // Time stands still.
  await start(undefined, { clock: new ManualClock() })
  await home.cluster.apply(wanted('{ found: true, devices: 30 }'))
  const offered = () => home.allocatable(...home.agent.plugins.resources)
  await eventually(() => expect(offered().sort()).toEqual([...Array(30).fill(1), 30]))
})

it('a restarted agent offers its checkpoint while the import of a handler hangs', async () => {
  const configuration = wanted('found: true')
  const resource = `akri.sh/${configuration.name}-8120fe`
  const registrations = () => measured('akri_plugin_registrations_total{result="accepted"}')
  await start()
  await home.cluster.apply(configuration)
  await offers(resource, 1)
  expect(await registrations()).toEqual([2])
  await home.stop()
  await offers(resource, 0)

  let atImport: ReturnType<typeof registrations> | undefined
  await start(() => {
    atImport = registrations()
    return new Promise(() => {})
  })
  await offers(resource, 1)
  await eventually(async () => expect(await atImport).toEqual([4]))
})

it('a restarted agent lists the id of a lost device before its handler answers', async () => {
  const found = wanted('found: true')
  const resource = `akri.sh/${found.name}`
  await start()
  await home.cluster.apply(found)
  await offers(resource, 1)
  await home.admit('p', resource)
  const [id = expect.fail('no id')] = home.kubelet.devices(resource).keys()
  const listsLost = () =>
    eventually(() =>
      expect(Object.fromEntries(home.kubelet.devices(resource))).toEqual({ [id]: false }),
    )
  await home.cluster.apply({ ...wanted('{ found: true, devices: 0 }'), name: found.name })
  await listsLost()
  await home.stop()
  home.kubelet.giveUp(resource)
  await start(() => new Promise(() => {}))
  await listsLost()
})

it('an agent that ends waits for the writes that are under way', async () => {
  const listening = vi.spyOn(home.cluster.configurations, 'onChange')
  let finish: () => void = () => expect.fail('no Instance is created')
  const creating = vi.spyOn(home.cluster, 'createInstance').mockImplementation(async () => {
    await new Promise<void>((resolve) => {
      finish = resolve
    })
    return 'created'
  })
  const closing = vi.spyOn(Discovery.prototype, 'close')
  await start()
  await home.cluster.apply(wanted('found: true'))
  await eventually(() => expect(creating).toHaveBeenCalled())
  const [, signal = expect.fail()] = listening.mock.calls[0] ?? []
  const ended = home.stop()
  await aborted(signal)
  // What follows without a wait has happened by then.
  await new Promise(setImmediate)
  expect(closing).not.toHaveBeenCalled()
  finish()
  await ended
  expect(closing).toHaveBeenCalled()
})

it('A2 an agent leaves a running agent of the same node alone, and ends', async () => {
  const configuration = wanted('found: true')
  const resource = `akri.sh/${configuration.name}-8120fe`
  await home.cluster.apply(configuration)
  await start()
  await offers(resource, 1)
  const register = vi.spyOn(home.sockets, 'register')
  const load = vi.fn(async () => handler)
  await expect(home.another({ embedded: [{ name: 'told', load }] })).rejects.toThrow(
    'is served by another process already',
  )
  expect([register.mock.calls, load.mock.calls]).toEqual([[], []])
  expect(home.allocatable(resource)).toEqual([1])
})

it('A4 a handler that registers once is known to the next agent, also if idle', async () => {
  await home.start()
  const socket = await listenOn(path.join(home.directory, 'sensor.sock'))
  const address = `unix:${home.directory}/agent-registration.sock`
  const client = new RegistrationClient(address, credentials.createInsecure())
  const registration = { name: 'sensor', endpoint: socket, endpointType: 0, shared: true } as const
  await new Promise<void>((resolve, reject) => {
    client.registerDiscoveryHandler(registration, (error) => (error ? reject(error) : resolve()))
  })
  client.close()
  // Also an agent that is killed leaves it.
  await eventually(async () =>
    expect(JSON.parse(await readFile(home.checkpointFile, 'utf8')).handlers).toEqual([
      { name: 'sensor', socket, shared: true, owner: `user ${process.getuid?.()}` },
    ]),
  )
  await home.start()
  await eventually(() => expect(home.agent.registry.names).toEqual(['sensor']))
})
