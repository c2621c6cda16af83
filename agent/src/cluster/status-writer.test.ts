import {
  CONFIGURATIONS,
  type Configuration,
  INSTANCES,
  type Instance,
  type InstanceName,
  type NodeStatus,
} from '@akrijs/api'
import { type NodeName, objectKey, Reflector, Resource } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { type Logger, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configurationWith, instanceWith } from '../testing/objects.js'
import { StatusWriter } from './status-writer.js'

const NODE = 'node-a' as NodeName
const key = objectKey('default', 'lab')

const PATH = '/apis/akri.sh/v0/namespaces/default/configurations/lab'

let clock: ManualClock
let api: FakeApiServer
/** The statuses of the next answers to patches, in place of an execution. */
let refusals: number[]
let instances: Reflector<Instance>
let writer: StatusWriter
let warnings: unknown[]
let stop: AbortController
let ran: Promise<unknown>

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  api = new FakeApiServer(clock)
  refusals = []
  api.refusal = ({ method }) => {
    const status = method === 'PATCH' ? refusals.shift() : undefined
    return status === undefined ? undefined : { status, message: 'refused' }
  }
  put(configurationWith())
  warnings = []
  stop = new AbortController()
})

afterEach(async () => {
  stop.abort()
  await ran
})

async function begin(random = () => 0): Promise<void> {
  const log: Logger = { ...silentLogger, warn: (fields) => warnings.push(fields) }
  const client = api.client()
  const configurationApi = new Resource(client, CONFIGURATIONS)
  const options = { client, clock, onError: () => {} }
  const configurations = new Reflector<Configuration>({
    ...options,
    path: configurationApi.path(),
    parse,
  })
  instances = new Reflector<Instance>({
    ...options,
    path: new Resource(client, INSTANCES).path(),
    parse: (object) => object as Instance,
  })
  writer = new StatusWriter(
    { configurations, instances, api: configurationApi, node: NODE, clock, log },
    { random },
  )
  ran = Promise.all([configurations.run(stop.signal), writer.run(stop.signal)])
  await clock.advance(0)
}

/** As the cluster does it: one that makes no sense is as it was before. */
function parse(object: unknown, known: Configuration | undefined): Configuration | undefined {
  const configuration = object as Configuration
  if (configuration.spec.capacity > 0) {
    writer.valid(configuration)
    return configuration
  }
  writer.invalid(configuration, 'spec.capacity: it is 0')
  return known
}

function reportWith(devices: number, reason = 'Discovering'): NodeStatus {
  return {
    observedGeneration: 1,
    devices,
    conditions: [{ type: 'Ready', status: 'True', reason, message: 'as wished' }],
  }
}

/** Another program writes the Configuration. */
function put(configuration: Configuration): void {
  api.put(PATH, { ...configuration })
}

const current = () =>
  (api.objects.get(PATH) ?? expect.fail('there is no Configuration')) as unknown as Configuration

/** The methods of the requests for the Configuration itself. */
const requests = () =>
  api.requests.filter(({ path }) => path.startsWith(PATH)).map(({ method }) => method)

/** Somebody else writes what another node has to say. */
function otherNode(devices: number): void {
  const before = current().status ?? {
    observedGeneration: 1,
    conditions: [],
    devices: 0,
    slots: { total: 0, claimed: 0 },
    nodes: {},
  }
  put({
    ...current(),
    status: { ...before, nodes: { ...before.nodes, 'node-b': reportWith(devices) } },
  })
}

/** An Instance of the Configuration comes. */
function device(name: string, deviceUsage: Instance['spec']['deviceUsage'], uid = 'u1'): void {
  const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', name: 'lab', uid }
  instances.observe(
    instanceWith(deviceUsage, {}, { name: name as InstanceName, ownerReferences: [owner] }),
  )
}

describe('the status of a node', () => {
  it('is written once half a second after a report, with the current content', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(200)
    writer.report(key, reportWith(2))
    await clock.advance(299)
    expect(requests()).toEqual([])
    await clock.advance(1)
    expect(requests()).toEqual(['PATCH'])
    expect(current().status).toEqual({
      observedGeneration: 1,
      devices: 0,
      slots: { total: 0, claimed: 0 },
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Discovering',
          message: 'as wished',
          lastTransitionTime: new Date(1_000_500).toISOString(),
        },
      ],
      nodes: { [NODE]: reportWith(2) },
    })
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
  })

  it('is written at a random time of the period, so that nodes do not write at once', async () => {
    await begin(() => 1)
    writer.report(key, reportWith(1))
    await clock.advance(249)
    expect(requests()).toEqual([])
    await clock.advance(1)
    expect(requests()).toEqual(['PATCH'])
  })

  it('is not written if the server has it already, as after a restart of the agent', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(500)
    stop.abort()
    await ran

    stop = new AbortController()
    await begin()
    for (let second = 0; second < 60; second++) {
      writer.report(key, reportWith(1))
      await clock.advance(1000)
    }
    expect(requests()).toEqual(['PATCH'])
  })

  it('is written once if a message quotes what no API server keeps as it is', async () => {
    await begin()
    const report = reportWith(1)
    const conditions = report.conditions.map((condition) => ({
      ...condition,
      message: 'handler: \u001b[2J\ud800',
    }))
    writer.report(key, { ...report, conditions })
    // Each write tells the writer of a change.
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
    expect(current().status?.nodes[NODE]?.conditions[0]?.message).toBe('handler: \ufffd[2J\ufffd')
  })

  it('is not written if it is unchanged at the time of the write', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(500)
    writer.report(key, reportWith(2))
    await clock.advance(400)
    writer.report(key, reportWith(1))
    // Who has made it counts it.
    device('lab-000001', {})
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
  })

  it('is not written again after a write of another node', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(500)
    for (let devices = 0; devices < 20; devices++) {
      otherNode(devices)
      await clock.advance(1000)
    }
    expect(requests()).toEqual(['PATCH'])
  })

  it('is written without the parts of other nodes, and with the summary of all nodes', async () => {
    await begin()
    otherNode(3)
    writer.report(key, reportWith(1))
    await clock.advance(500)
    expect(api.sent('PATCH')).toEqual([
      expect.objectContaining({
        status: expect.objectContaining({ nodes: { [NODE]: reportWith(1) } }),
      }),
    ])
    expect(current().status?.nodes).toEqual({ [NODE]: reportWith(1), 'node-b': reportWith(3) })
    expect(current().status?.conditions).toMatchObject([
      { message: '2 of 2 nodes; node-a: as wished' },
    ])
  })

  it('loses the count of devices that are left out when none are left out any more', async () => {
    await begin()
    writer.report(key, { ...reportWith(1), leftOut: 7 })
    await clock.advance(500)
    expect(current().status?.nodes[NODE]?.leftOut).toBe(7)
    writer.report(key, reportWith(1))
    await clock.advance(60_000)
    expect(current().status?.nodes[NODE]).toEqual(reportWith(1))
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('is written once although an earlier custom resource drops a field', async () => {
    api.store.kept = (object) =>
      JSON.parse(JSON.stringify(object, (name, value) => (name === 'leftOut' ? undefined : value)))
    await begin()
    for (let round = 0; round < 5; round++) {
      writer.report(key, { ...reportWith(1), leftOut: 7 })
      otherNode(round)
      await clock.advance(1000)
    }
    expect(current().status?.nodes[NODE]).toEqual(reportWith(1))
    expect(requests().filter((method) => method === 'PATCH')).toHaveLength(1)
    writer.report(key, { ...reportWith(2), leftOut: 7 })
    await clock.advance(1000)
    expect(current().status?.nodes[NODE]).toEqual(reportWith(2))
  })

  it('is written again if it was removed', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(500)
    const { status: _gone, ...rest } = current()
    put(rest)
    await clock.advance(500)
    expect(requests()).toEqual(['PATCH', 'PATCH'])
    expect(current().status?.nodes).toEqual({ [NODE]: reportWith(1) })
  })

  it('is not written for a deleted Configuration, nor for its successor', async () => {
    await begin()
    writer.report(key, reportWith(1))
    writer.changed(key)
    api.remove(PATH)
    await clock.advance(0)
    put(configurationWith({}, { uid: 'u2' }))
    await clock.advance(60_000)
    expect(requests()).toEqual([])
    writer.report(key, reportWith(2))
    await clock.advance(500)
    expect(current().status?.nodes).toEqual({ [NODE]: reportWith(2) })
  })
})

describe('the summary counts', () => {
  it('are written by the node that changed them, although its own part is unchanged', async () => {
    await begin()
    device('lab-000001', { 'lab-000001-0': 'node-a', 'lab-000001-1': '' })
    writer.report(key, reportWith(1))
    await clock.advance(500)
    expect(current().status).toMatchObject({ devices: 1, slots: { total: 2, claimed: 1 } })
    // By another node, which writes it.
    device('lab-000002', { 'lab-000002-0': 'node-b', 'lab-000002-1': '' })
    // Of another Configuration, which had that name before.
    device('lab-000003', { 'lab-000003-0': '', 'lab-000003-1': '' }, 'u0')
    writer.report(key, reportWith(1))
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
    writer.changed(key)
    await clock.advance(500)
    expect(current().status).toMatchObject({ devices: 2, slots: { total: 4, claimed: 2 } })
    device('lab-000004', {})
    otherNode(1)
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('are written once for many changes, and not at all if the changes cancel out', async () => {
    await begin()
    writer.report(key, reportWith(1))
    for (let index = 0; index < 100; index++) {
      device(`lab-${index}`, {})
      writer.changed(key)
    }
    await clock.advance(500)
    expect(current().status).toMatchObject({ devices: 100 })
    writer.changed(key)
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
  })

  it('are not written before the first report of the Configuration', async () => {
    await begin()
    writer.changed(key)
    await clock.advance(60_000)
    expect(requests()).toEqual([])
  })
})

describe('a status that cannot be written', () => {
  it('does not conflict with its own write that the watch has not reported yet', async () => {
    await begin()
    api.isSilent = true
    for (const devices of [1, 2, 2, 3]) {
      writer.report(key, reportWith(devices))
      await clock.advance(500)
    }
    expect(requests()).toEqual(['PATCH', 'PATCH', 'PATCH'])
  })

  it('is computed again from the status that another node has written meanwhile', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(0)
    api.isSilent = true
    otherNode(3)
    await clock.advance(500)
    expect(requests()).toEqual(['PATCH', 'GET'])
    await clock.advance(500)
    expect(requests()).toEqual(['PATCH', 'GET', 'PATCH'])
    expect(current().status).toMatchObject({
      nodes: { [NODE]: reportWith(1), 'node-b': reportWith(3) },
      conditions: [{ message: '2 of 2 nodes; node-a: as wished' }],
    })
    await clock.advance(60_000)
    expect(requests()).toHaveLength(3)
    // Nothing is wrong where nodes write at the same time.
    expect(warnings).toEqual([])
  })

  it('is not written again if the server has the same status by then', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(500)
    const { status } = current()
    writer.report(key, reportWith(2))
    await clock.advance(0)
    api.isSilent = true
    // Another agent of this node, which is about to be exchanged.
    if (status !== undefined)
      put({ ...current(), status: { ...status, nodes: { [NODE]: reportWith(2) } } })
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH', 'PATCH', 'GET'])
  })

  it('is retried with a back-off, and keeps the counts', async () => {
    await begin()
    writer.report(key, reportWith(1))
    await clock.advance(500)
    device('lab-000001', {})
    refusals.push(500, 503, 500)
    writer.changed(key)
    await clock.advance(500 + 500 + 1000)
    expect(requests()).toHaveLength(4)
    expect(warnings).toMatchObject([{ retryInMs: 500 }, { retryInMs: 1000 }, { retryInMs: 2000 }])
    await clock.advance(2000)
    expect(current().status).toMatchObject({ devices: 1 })
    await clock.advance(60_000)
    expect(requests()).toHaveLength(5)
  })

  it('is given up if the Configuration is gone', async () => {
    await begin()
    api.isSilent = true
    api.remove(PATH)
    writer.report(key, reportWith(1))
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
    expect(warnings).toEqual([])
  })

  it('is not retried after a terminal refusal', async () => {
    await begin()
    refusals.push(422)
    writer.report(key, reportWith(1))
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
    expect(warnings).toMatchObject([{ retryInMs: undefined }])
  })
})

describe('an invalid Configuration', () => {
  const edit = (capacity: number) => put({ ...current(), spec: { ...current().spec, capacity } })

  it('has its problem once in the status, beside other conditions, until it is valid', async () => {
    await begin()
    writer.report(key, reportWith(2))
    await clock.advance(500)
    const before = current().status
    edit(0)
    await clock.advance(500)
    const invalid = {
      type: 'Ready',
      status: 'False',
      reason: 'InvalidConfiguration',
      message: 'spec.capacity: it is 0',
    }
    expect(current().status).toMatchObject({
      nodes: { [NODE]: { devices: 2, conditions: [invalid] } },
      conditions: [invalid],
    })
    writer.report(key, reportWith(2))
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH', 'PATCH'])
    edit(1)
    await clock.advance(500)
    expect(current().status).toMatchObject({
      nodes: before?.nodes,
      conditions: [{ reason: 'Discovering' }],
    })
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH', 'PATCH', 'PATCH'])
  })

  it('has its problem in the status from the start, although no cache has it', async () => {
    edit(0)
    await begin()
    await clock.advance(60_000)
    expect(requests()).toEqual(['PATCH'])
    expect(current().status).toMatchObject({
      nodes: {
        [NODE]: { devices: 0, conditions: [{ type: 'Ready', reason: 'InvalidConfiguration' }] },
      },
    })
  })
})
