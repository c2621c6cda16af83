import type { Configuration, Instance } from '@akrijs/api'
import { beforeEach, expect, it } from 'vitest'
import type { HandlerRegistry } from '../handlers/handler-registry.js'
import { AgentMetrics } from './metrics.js'

const instance = (shared: boolean, nodes: string[], deviceUsage: Record<string, string>) =>
  ({
    spec: { configurationName: 'cam', shared, nodes, capacity: 2, deviceUsage },
  }) as unknown as Instance

const configuration = (name: string, handler: string) =>
  ({ metadata: { name }, spec: { discoveryHandler: { name: handler } } }) as Configuration

let configurations: Configuration[]
let instances: Instance[]
let problems: string[]
/** Of the node `a`. */
let metrics: AgentMetrics

beforeEach(() => {
  configurations = []
  instances = []
  problems = []
  const cluster = {
    configurations: { list: () => configurations },
    instances: { list: () => instances },
    silentForMs: 1500,
  }
  metrics = new AgentMetrics('a', cluster, { add: (problem) => void problems.push(problem) })
})

it('counts Instances and slots of its node, by the names of the existing system', async () => {
  configurations = [configuration('cam', 'onvif'), configuration('disk', 'udev')]
  instances = [
    instance(true, ['a', 'b'], { 's-0': 'a', 's-1': 'C:0:b' }),
    instance(false, ['a'], {}),
    instance(true, ['b'], { 't-0': 'b', 't-1': '' }),
  ]
  metrics.agent = {
    registry: { size: 3 } as HandlerRegistry,
    queued: (kind) => ({ Configuration: 4, Claims: 1, BrokerInfo: 7 })[kind],
  }
  metrics.handlerAnswered('cam', 'udev', 0.3)
  metrics.handlerAnswered('cam', 'udev', undefined)
  metrics.handlerFailed('udev')
  metrics.apiAnswered('GET', undefined)
  metrics.failed('StateNotWritten', Object.assign(new Error('full'), { code: 'ENOSPC' }))
  expect(problems).toEqual(['DiskFull'])
  const text = await metrics.registry.metrics()
  for (const line of [
    'akri_instance_count{configuration="cam",is_shared="true"} 1',
    'akri_instance_count{configuration="cam",is_shared="false"} 1',
    'akri_slots{configuration="cam",holder="none"} 2',
    'akri_slots{configuration="cam",holder="this_node"} 1',
    'akri_slots{configuration="cam",holder="other_node"} 1',
    'akri_handler_endpoints 3',
    'akri_reconcile_queue_depth{kind="Configuration"} 4',
    'akri_reconcile_queue_depth{kind="Claims"} 1',
    'akri_reconcile_queue_depth{kind="BrokerInfo"} 7',
    'akri_reconcile_duration_seconds_count{kind="Claims"} 0',
    'akri_allocations_total{level="instance",result="refused"} 0',
    'akri_slot_claims_total{level="configuration",outcome="taken"} 0',
    'akri_slot_reclaims_total 0',
    'akri_slot_restores_total{outcome="restored"} 0',
    'akri_plugin_registrations_total{result="failed"} 0',
    'akri_node_problems_total{problem="DiskFull"} 1',
    'akri_node_problems_total{problem="StateNotWritten"} 0',
    'akri_api_requests_total{method="GET",status="none"} 1',
    'akri_api_silence_seconds 1.5',
    'akri_discovery_response_result{discovery_handler_name="udev",result="Success"} 2',
    'akri_discovery_response_result{discovery_handler_name="udev",result="Fail"} 1',
    'akri_discovery_response_result{discovery_handler_name="onvif",result="Success"} 0',
    'akri_discovery_response_result{discovery_handler_name="onvif",result="Fail"} 0',
    'akri_discovery_response_time_bucket{le="0.5",configuration="cam"} 1',
    'akri_discovery_response_time_count{configuration="cam"} 1',
  ])
    expect(text).toContain(`${line}\n`)
  // Of what is gone nothing is left.
  instances = []
  expect(await metrics.registry.metrics()).toContain(
    'akri_instance_count{configuration="cam",is_shared="true"} 0\n',
  )
  expect(await metrics.registry.metrics()).not.toContain('akri_slots{')
})

it('starts its series again beyond 2,000 Configurations between two scrapes', async () => {
  configurations = Array.from({ length: 2001 }, (_, index) => configuration(`cam-${index}`, 'h'))
  const series = async () =>
    (await metrics.registry.metrics()).match(/^akri_discovery_response_time_count/gm)?.length
  for (const { metadata } of configurations.slice(1)) metrics.handlerAnswered(metadata.name, 'h', 1)
  expect(await series()).toBe(2000)
  metrics.handlerAnswered('cam-0', 'h', 1)
  expect(await series()).toBe(1)
})

it('forgets Configurations and handlers that no Configuration has any more', async () => {
  const empty = await metrics.registry.metrics()
  const series = async () => (await metrics.registry.metrics()).match(/"(cam|h)-\d+"/g)
  for (let round = 0; round < 50; round++) {
    configurations = [configuration(`cam-${round}`, `h-${round}`)]
    metrics.handlerAnswered(`cam-${round}`, `h-${round}`, 0.3)
    // The last answer of a Configuration that is gone.
    metrics.handlerFailed(`h-${round - 1}`)
  }
  expect(new Set(await series())).toEqual(new Set(['"cam-49"', '"h-49"']))
  configurations = []
  expect(await metrics.registry.metrics()).toBe(empty)
})
