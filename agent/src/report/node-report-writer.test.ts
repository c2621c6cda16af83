import {
  CONFIGURATIONS,
  type Configuration,
  type InstanceName,
  type Membership,
  type NodeReport,
  type NodeStatus,
  type SlotName,
} from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey, Reflector, Resource } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { type Logger, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configurationWith } from '../testing/objects.js'
import { NodeReportWriter } from './node-report-writer.js'

const NODE = 'node-a' as NodeName
const key = objectKey('default', 'lab')
const CONFIGURATION = '/apis/akri.sh/v0/namespaces/default/configurations/lab'
const REPORTS = '/apis/akri.sh/v0/nodereports'
const REPORT = `${REPORTS}/${NODE}`
const MINUTE = 60_000

let clock: ManualClock
let api: FakeApiServer
let writer: NodeReportWriter
let configurations: Reflector<Configuration>
let logged: string[]
let stop: AbortController
let ran: Promise<unknown>

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  api = new FakeApiServer(clock)
  api.put(`/api/v1/nodes/${NODE}`, { metadata: { uid: 'uid-node' } })
  put(configurationWith())
  logged = []
  stop = new AbortController()
})

afterEach(async () => {
  stop.abort()
  await ran
})

/** Starts an agent, and lets it look at its report. */
async function begin({
  random = () => 0,
  agentPod,
  nodes = 1,
}: {
  random?: () => number
  agentPod?: string
  nodes?: number
} = {}) {
  const log: Logger = {
    ...silentLogger,
    warn: (_, message) => logged.push(message),
    error: (_, message) => logged.push(message),
  }
  const client = api.client()
  configurations = new Reflector<Configuration>({
    client,
    clock,
    onError: () => {},
    path: new Resource(client, CONFIGURATIONS).path(),
    parse,
    deleted: (deleted) => writer.forget(deleted),
  })
  const knownNodes = () => nodes
  const options = { client, configurations, node: NODE, clock, log, agentPod, knownNodes }
  writer = new NodeReportWriter(options, random)
  ran = Promise.all([configurations.run(stop.signal), writer.run(stop.signal)])
  await clock.advance(0)
}

/** An agent that has written its first report. */
async function begun(more: Parameters<typeof begin>[0] = {}): Promise<void> {
  await begin(more)
  writer.report(key, statusWith(1))
  await clock.advance(more.nodes === undefined ? 200 : MINUTE)
  api.requests.length = 0
}

/** As the cluster does it: an invalid version leaves the version before. */
function parse(object: unknown, known: Configuration | undefined): Configuration | undefined {
  const configuration = object as Configuration
  if (configuration.spec.capacity > 0) {
    writer.valid(configuration)
    return configuration
  }
  writer.invalid(configuration, 'spec.capacity: it is 0')
  return known?.metadata.uid === configuration.metadata.uid ? known : undefined
}

function statusWith(devices: number, message = 'as it should be'): NodeStatus {
  return {
    observedGeneration: 1,
    devices,
    conditions: [{ type: 'Ready', status: 'True', reason: 'AllDevicesServed', message }],
  }
}

/** Another program writes the Configuration. */
function put(configuration: Configuration, path = CONFIGURATION): void {
  api.put(path, { ...configuration })
}

const entry = (devices: number) => ({ uid: 'u1', ...statusWith(devices) })
const stored = () => api.objects.get(REPORT) ?? expect.fail('there is no report')
const requests = () =>
  api.requests
    .filter(({ path }) => path.startsWith(REPORTS))
    .map(({ method, path }) => `${method}${path === REPORTS ? ' all' : ''}`)

describe('the problems of devices', () => {
  const refused = [{ reason: 'credential refused', instances: ['cam-8120fe' as InstanceName] }]
  const reported = () => (stored() as unknown as NodeReport).configurations[key]

  it('stay until the agent knows better, also over its restart', async () => {
    await begun()
    writer.report(key, statusWith(1), refused)
    await clock.advance(200)
    expect(reported()).toEqual({ ...entry(1), deviceProblems: refused })
    writer.report(key, statusWith(2))
    await clock.advance(200)
    expect(reported()).toEqual({ ...entry(2), deviceProblems: refused })
    stop.abort()
    await ran
    stop = new AbortController()
    await begin()
    writer.report(key, statusWith(3))
    await clock.advance(200)
    expect(reported()).toEqual({ ...entry(3), deviceProblems: refused })
    writer.report(key, statusWith(3), [])
    await clock.advance(200)
    expect(reported()).toEqual(entry(3))
  })

  it('go at once if the agent found them, also over its restart', async () => {
    const lost = { ...refused[0], reason: 'x', found: 'DeviceLost', instances: [] } as const
    await begun()
    for (const devices of [1, 2]) {
      writer.report(key, statusWith(devices), [...refused, lost])
      await clock.advance(200)
      expect(reported()).toEqual({ ...entry(devices), deviceProblems: [...refused, lost] })
      if (devices === 2) {
        stop.abort()
        await ran
        stop = new AbortController()
        await begin()
      }
      writer.report(key, statusWith(devices))
      await clock.advance(200)
      expect(reported()).toEqual({ ...entry(devices), deviceProblems: refused })
    }
  })
})

describe('the slots in the report of a node', () => {
  const instance = objectKey('default', 'cam-8120fe')
  const used = { slot: 'cam-8120fe-0' as SlotName, pod: 'lab/user', since: 'then' }

  it('are written once in ten seconds at most, and not again without a change', async () => {
    await begun()
    writer.report(key, statusWith(1))
    await clock.advance(200)
    api.requests.length = 0
    for (let second = 0; second < 8; second++) {
      const pod = `lab/user-${second}`
      writer.reportSlots(new Map([[instance, [{ ...used, pod }]]]))
      await clock.advance(1000)
    }
    expect(requests().length).toBeLessThanOrEqual(1)
    await clock.advance(10_000)
    expect(requests().length).toBeLessThanOrEqual(2)
    expect(stored()).toMatchObject({ slots: { [instance]: [{ pod: 'lab/user-7' }] } })
    api.requests.length = 0
    writer.reportSlots(new Map([[instance, [{ ...used, pod: 'lab/user-7' }]]]))
    await clock.advance(60_000)
    expect(requests()).toEqual([])
    writer.reportSlots(new Map())
    await clock.advance(10_000)
    expect(stored()).not.toHaveProperty('slots')
  })

  it('stay over a restart of the agent until it knows them', async () => {
    await begun()
    writer.report(key, statusWith(1))
    writer.reportSlots(new Map([[instance, [used]]]))
    await clock.advance(10_000)
    expect(stored()).toMatchObject({ slots: { [instance]: [used] } })
    stop.abort()
    await ran
    stop = new AbortController()
    await begin()
    writer.report(key, statusWith(2))
    await clock.advance(200)
    expect(stored()).toMatchObject({ slots: { [instance]: [used] } })
    writer.reportSlots(new Map())
    await clock.advance(10_000)
    expect(stored()).not.toHaveProperty('slots')
  })
})

it('Pods to end are in the report of a node at once, and as long as they are there', async () => {
  await begun()
  const pods = new Map([[objectKey('lab', 'user'), { uid: 'u', slot: 'cam-8120fe-0' }]])
  writer.reportPodsToEnd(pods)
  await clock.advance(200)
  expect(stored()).toMatchObject({ podsToEnd: Object.fromEntries(pods) })
  api.requests.length = 0
  writer.reportPodsToEnd(new Map(pods))
  await clock.advance(60_000)
  expect(requests()).toEqual([])
  writer.reportPodsToEnd(new Map())
  await clock.advance(200)
  expect(stored()).not.toHaveProperty('podsToEnd')
})

describe('the report of a node', () => {
  it('is created once, with the changes of a moment, and belongs to the Node', async () => {
    await begin({ agentPod: 'agent-x' })
    for (let devices = 0; devices < 50; devices++) writer.report(key, statusWith(devices))
    await clock.advance(199)
    expect(requests()).toEqual([])
    await clock.advance(1)
    expect(requests()).toEqual(['GET', 'POST all'])
    expect(stored()).toMatchObject({
      metadata: {
        name: NODE,
        ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: NODE, uid: 'uid-node' }],
      },
      agentPod: 'agent-x',
      counts: { configurations: 1, ready: 1, devices: 49 },
      configurations: { [key]: entry(49) },
      memberships: {},
    })
    expect(stored().metadata.ownerReferences).not.toMatchObject([{ blockOwnerDeletion: true }])
  })

  it('is written with what has changed, and not at all without a change', async () => {
    put(
      { ...configurationWith({}, { name: 'dog' as never, uid: 'u2' }) },
      CONFIGURATION.replace('lab', 'dog'),
    )
    await begin()
    writer.report(key, statusWith(1))
    writer.report(objectKey('default', 'dog'), statusWith(2))
    await clock.advance(200)
    api.requests.length = 0
    writer.report(key, { ...statusWith(3), leftOut: 7 })
    await clock.advance(200)
    writer.report(key, statusWith(3))
    await clock.advance(200)
    expect(api.sent('PATCH')).toEqual([
      { counts: { devices: 5 }, configurations: { [key]: { devices: 3, leftOut: 7 } } },
      { configurations: { [key]: { leftOut: null } } },
    ])
    api.requests.length = 0
    for (let round = 0; round < 20; round++) {
      writer.report(key, statusWith(3))
      put({ ...configurationWith(), status: { nodes: {} } as never })
      await clock.advance(1000)
    }
    expect(requests()).toEqual([])
  })

  it('loses the status of a Configuration that was deleted or has a successor', async () => {
    await begun()
    put(configurationWith({}, { uid: 'u2' }))
    writer.report(key, statusWith(4))
    await clock.advance(200)
    expect(stored().configurations).toEqual({ [key]: { ...entry(4), uid: 'u2' } })
    api.remove(CONFIGURATION)
    await clock.advance(200)
    expect(stored().configurations).toEqual({})
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('keeps what the agent before has written of Configurations that still exist', async () => {
    await begun()
    const dog = objectKey('default', 'dog')
    api.put(REPORT, { ...stored(), configurations: { [key]: entry(1), [dog]: entry(9) } })
    stop.abort()
    await ran
    stop = new AbortController()
    api.requests.length = 0
    await begin()
    await clock.advance(200)
    expect(stored().configurations).toEqual({ [key]: entry(1) })
    expect(requests()).toEqual(['GET', 'PATCH'])
    writer.report(key, statusWith(1))
    await clock.advance(MINUTE)
    expect(requests()).toEqual(['GET', 'PATCH'])
  })

  it('is corrected with the next write after another program has written it', async () => {
    await begun()
    api.put(REPORT, { ...stored(), counts: {}, configurations: { 'a/b': entry(9) } })
    await clock.advance(MINUTE)
    expect(requests()).toEqual([])
    writer.report(key, statusWith(2))
    await clock.advance(200)
    expect(stored()).toMatchObject({
      counts: { configurations: 1, ready: 1, devices: 2 },
      configurations: { [key]: entry(2) },
    })
    expect(stored().configurations).not.toHaveProperty(['a/b'])
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('is created again with the next write after it was deleted, or after a while', async () => {
    await begun()
    api.remove(REPORT)
    writer.report(key, statusWith(2))
    await clock.advance(200)
    expect(requests()).toEqual(['PATCH', 'POST all'])
    expect(stored().configurations).toEqual({ [key]: entry(2) })
    api.remove(REPORT)
    await clock.advance(10 * MINUTE)
    expect(stored().configurations).toEqual({ [key]: entry(2) })
    api.requests.length = 0
    await clock.advance(60 * MINUTE)
    expect(requests().every((method) => method === 'GET')).toBe(true)
    expect(requests().length).toBeLessThanOrEqual(6)
  })

  it('is not written again and again if an earlier custom resource drops a field', async () => {
    api.store.kept = (object) =>
      JSON.parse(JSON.stringify(object, (name, value) => (name === 'leftOut' ? undefined : value)))
    await begun()
    writer.report(key, { ...statusWith(1), leftOut: 7 })
    await clock.advance(200)
    const before = requests().length
    for (let round = 0; round < 5; round++) {
      put(configurationWith({}, { annotations: { round: String(round) } }))
      await clock.advance(1000)
    }
    expect(requests()).toHaveLength(before)
  })

  it('waits for a random time that grows with the nodes, at most six seconds', async () => {
    const waits = async (nodes: number) => {
      await begin({ random: () => 0.999, nodes })
      const before = clock.monotonicMs()
      while (requests().length < 2) await clock.advance(1)
      stop.abort()
      await ran
      stop = new AbortController()
      api.requests.length = 0
      api.remove(REPORT)
      return clock.monotonicMs() - before
    }
    expect(await waits(1)).toBeLessThan(110)
    expect(await waits(100)).toBeGreaterThan(250)
    const most = await waits(100_000)
    expect(most).toBeGreaterThan(3500)
    expect(most).toBeLessThanOrEqual(6000)
  })

  it('is written at once for a wish, and with the status that waits', async () => {
    await begun({ random: () => 0, nodes: 40 })
    writer.report(key, statusWith(2))
    await clock.advance(500)
    expect(requests()).toEqual([])
    const instance = objectKey('default', 'lab-8120fe')
    const wish: Membership = { uid: 'u-8120fe', wish: 'join' }
    writer.setMembership(instance, wish)
    await clock.advance(200)
    expect(stored()).toMatchObject({
      configurations: { [key]: entry(2) },
      memberships: { [instance]: wish },
    })
    await clock.advance(MINUTE)
    expect(requests()).toEqual(['PATCH'])
    writer.report(key, statusWith(3))
    await clock.advance(979)
    expect(requests()).toEqual(['PATCH'])
    await clock.advance(1)
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('has the memberships that the agent wishes, until the next write without them', async () => {
    await begun()
    const instance = objectKey('default', 'lab-8120fe')
    const wish: Membership = { uid: 'u-8120fe', wish: 'join' }
    writer.setMembership(instance, wish)
    await clock.advance(200)
    expect(stored().memberships).toEqual({ [instance]: wish })
    writer.setMembership(instance, undefined)
    await clock.advance(MINUTE)
    expect(requests()).toEqual(['PATCH'])
    writer.report(key, statusWith(2))
    await clock.advance(200)
    expect(stored().memberships).toEqual({})
    writer.setMembership(instance, { ...wish, wish: 'leave' })
    await clock.advance(200)
    expect(stored().memberships).toEqual({ [instance]: { ...wish, wish: 'leave' } })
  })

  it('A10 R98 withdraws a wish to leave at once for containers that run', async () => {
    await begun({ random: () => 0.999, nodes: 1000 })
    const instance = objectKey('default', 'lab-8120fe')
    writer.setMembership(instance, { uid: 'u-8120fe', wish: 'leave' })
    await clock.advance(MINUTE)
    writer.setMembership(instance, undefined)
    const asked = () => Object.keys(stored().memberships ?? {})
    expect(asked()).toEqual([instance])
    let isWithdrawn = false
    const withdrawn = writer.leaveWithdrawn(instance).then(() => {
      isWithdrawn = true
    })
    expect(isWithdrawn).toBe(false)
    await clock.advance(0)
    await withdrawn
    expect(asked()).toEqual([])
    // There is nothing to withdraw any more.
    await writer.leaveWithdrawn(instance)
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('A10 R98 waits some seconds at most for a withdrawal, also without a report', async () => {
    await begun()
    const instance = objectKey('default', 'lab-8120fe')
    writer.setMembership(instance, { uid: 'u-8120fe', wish: 'leave' })
    await clock.advance(200)
    writer.setMembership(instance, undefined)
    api.refusal = () => ({ status: 500, reason: 'InternalError', message: 'down' })
    let isOver = false
    const over = writer.leaveWithdrawn(instance).then(() => {
      isOver = true
    })
    await clock.advance(4999)
    expect(isOver).toBe(false)
    await clock.advance(1)
    await over
  })

  it('A10 R98 is without the wishes of the agent before, soon after a start', async () => {
    await begun({ random: () => 0.999, nodes: 1000 })
    const instance = objectKey('default', 'lab-8120fe')
    writer.setMembership(instance, { uid: 'u-8120fe', wish: 'leave' })
    await clock.advance(MINUTE)
    expect(Object.keys(stored().memberships ?? {})).toEqual([instance])
    stop.abort()
    await ran
    stop = new AbortController()
    await begin({ random: () => 0.999, nodes: 1000 })
    await clock.advance(200)
    expect(stored().memberships).toEqual({})
    expect(stored().configurations).toEqual({ [key]: entry(1) })
  })

  it('has the next wishes as soon as earlier ones are taken back, and gathers these', async () => {
    await begun()
    const instance = (index: number) => objectKey('default', `lab-${index}`)
    for (let index = 0; index < 1003; index++)
      writer.setMembership(instance(index), { uid: `u-${index}`, wish: 'join' })
    await clock.advance(200)
    const wishes = () => Object.keys(stored().memberships ?? {})
    expect(wishes()).toHaveLength(1000)
    expect(wishes()).not.toContain(instance(1000))
    expect(writer.memberships).toBe(1003)
    for (const index of [0, 1]) writer.setMembership(instance(index), undefined)
    await clock.advance(1000)
    expect(wishes()).toContain(instance(1001))
    expect(wishes()).not.toContain(instance(1002))
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })
})

describe('a report that cannot be written', () => {
  it('is read again and retried with a back-off: the write may have been stored', async () => {
    await begun()
    let failures = 3
    api.refusal = ({ method }) =>
      method === 'PATCH' && failures-- > 0 ? { status: 500, message: 'refused' } : undefined
    writer.report(key, statusWith(2))
    await clock.advance(10_000)
    expect(stored().configurations).toEqual({ [key]: entry(2) })
    expect(requests().filter((method) => method === 'PATCH')).toHaveLength(4)
    expect(logged).toEqual(Array(3).fill('report of the node not written'))
  })

  it('is looked for rarely without its custom resource, which is logged once', async () => {
    let isInstalled = false
    api.refusal = ({ path }) =>
      path.startsWith(REPORTS) && !isInstalled
        ? { status: 404, message: 'no such page' }
        : undefined
    await begin()
    for (let devices = 0; devices < 60; devices++) {
      writer.report(key, statusWith(devices))
      await clock.advance(10_000)
    }
    expect(requests().length).toBeLessThanOrEqual(20)
    expect(logged).toEqual(['custom resource not installed'])
    isInstalled = true
    await clock.advance(2 * MINUTE)
    expect(stored().configurations).toEqual({ [key]: entry(59) })
  })

  it('is created without an owner if there is no Node', async () => {
    api.remove(`/api/v1/nodes/${NODE}`)
    await begin()
    await clock.advance(200)
    expect(stored().metadata).not.toHaveProperty('ownerReferences')
  })
})

describe('an invalid Configuration', () => {
  const edit = (capacity: number, of: Configuration = configurationWith()) =>
    put({ ...of, spec: { ...of.spec, capacity } })
  const invalid = {
    type: 'Ready',
    status: 'False',
    reason: 'InvalidConfiguration',
    message: 'spec.capacity: it is 0',
  }
  const statusOf = (of: ObjectKey) =>
    (stored().configurations as Record<string, NodeStatus> | undefined)?.[of]

  it('has its problem in the report, beside other conditions, until it is valid', async () => {
    await begun()
    edit(0)
    await clock.advance(200)
    expect(statusOf(key)).toEqual({ ...entry(1), conditions: [invalid] })
    writer.report(key, statusWith(1))
    await clock.advance(MINUTE)
    expect(requests()).toEqual(['PATCH'])
    edit(1)
    await clock.advance(200)
    expect(statusOf(key)).toEqual(entry(1))
  })

  it('has its problem in the report from the start, although no cache has it', async () => {
    edit(0)
    await begin()
    await clock.advance(200)
    expect(statusOf(key)).toEqual({ ...entry(0), conditions: [invalid] })
  })

  it('has no problem in the report after its deletion, and its invalid successor has', async () => {
    await begin()
    edit(0)
    await clock.advance(200)
    api.remove(CONFIGURATION)
    await clock.advance(200)
    expect(stored().configurations).toEqual({})
    put(configurationWith({}, { uid: 'u2' }))
    await clock.advance(200)
    // The agent has missed the deletion in between.
    edit(0, configurationWith({}, { uid: 'u3' }))
    await clock.advance(200)
    expect(statusOf(key)).toEqual({ ...entry(0), uid: 'u3', conditions: [invalid] })
    api.remove(CONFIGURATION)
    await clock.advance(200)
    expect(stored().configurations).toEqual({})
  })
})
