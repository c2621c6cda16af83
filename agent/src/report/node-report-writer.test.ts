import type {
  Configuration,
  DeviceProblem,
  InstanceName,
  Membership,
  NodeReport,
  NodeStatus,
  SlotName,
} from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { type Logger, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { WatchedConfigurations } from '../cluster/watched-configurations.js'
import { configurationWith, NODE } from '../testing/objects.js'
import { NodeReportWriter } from './node-report-writer.js'

const key = objectKey('default', 'lab')
const instance = objectKey('default', 'lab-8120fe')
const COLLECTION = '/apis/akri.sh/v0/configurations'
const CONFIGURATION = '/apis/akri.sh/v0/namespaces/default/configurations/lab'
const REPORTS = '/apis/akri.sh/v0/nodereports'
const REPORT = `${REPORTS}/${NODE}`
const MINUTE = 60_000

let clock: ManualClock
let api: FakeApiServer
let writer: NodeReportWriter
let logged: string[]
/** The wishes of the agent. */
let wanted: Map<ObjectKey, Membership>
let end: () => Promise<unknown>

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  api = new FakeApiServer(clock)
  api.put(`/api/v1/nodes/${NODE}`, { metadata: { uid: 'uid-node' } })
  put(configurationWith())
  logged = []
})

afterEach(() => end())

interface Started {
  readonly random?: () => number
  readonly agentPod?: string
  readonly nodes?: number
}

/** Starts an agent, and lets it look at its report. */
async function start({ random = () => 0, agentPod, nodes = 1 }: Started = {}) {
  const note = (_: object, message: string) => void logged.push(message)
  const log: Logger = { ...silentLogger, error: note }
  const shared = { client: api.client(), clock, log, path: COLLECTION }
  const invalidChanged = () => writer.statusChanged()
  const configurations = new WatchedConfigurations({ ...shared, onError: () => {}, invalidChanged })
  wanted = new Map()
  const options = { ...shared, configurations, node: NODE, agentPod }
  const world = { knownNodes: () => nodes, wishes: () => wanted }
  writer = new NodeReportWriter({ ...options, ...world, log: { ...log, warn: note } }, random)
  const stop = new AbortController()
  const ran = Promise.all([configurations.cache.run(stop.signal), writer.run(stop.signal)])
  end = () => {
    stop.abort()
    return ran
  }
  await clock.advance(0)
}

async function restart(started?: Started): Promise<void> {
  await end()
  api.requests.length = 0
  await start(started)
}

/** An agent that has written its first report. */
async function startReported(started: Started = {}): Promise<void> {
  await start(started)
  await report(1, undefined, started.nodes === undefined ? 200 : MINUTE)
  api.requests.length = 0
}

async function report(devices: number, problems?: readonly DeviceProblem[], ms = 200) {
  writer.report(key, statusWith(devices), problems)
  await clock.advance(ms)
}

function statusWith(devices: number): NodeStatus {
  const condition = { type: 'Ready', status: 'True', reason: 'AllDevicesServed', message: '' }
  return { observedGeneration: 1, devices, conditions: [condition as never] }
}

function wish(membership: Membership): void {
  wanted.set(instance, membership)
  writer.wishChanged()
}

/** Another program writes the Configuration. */
function put(configuration: Configuration, path = CONFIGURATION): void {
  api.put(path, { ...configuration })
}

const entry = (devices: number) => ({ uid: 'u1', ...statusWith(devices) })
const stored = () => (api.objects.get(REPORT) ?? expect.fail()) as unknown as NodeReport
const wishes = () => stored().memberships
const requests = () =>
  api.requests
    .filter(({ path }) => path.startsWith(REPORTS))
    .map(({ method, path }) => `${method}${path === REPORTS ? ' all' : ''}`)

it.each([
  ['', async () => {}],
  [', also over a restart', () => restart()],
])(
  'problems of a handler stay until the agent knows better, and its own go%s',
  async (_, between) => {
    const refused = { reason: 'credential refused', instances: ['cam-8120fe' as InstanceName] }
    const lost = { reason: 'x', found: 'DeviceLost', instances: [] } as const
    const problems = () => stored().configurations[key]?.deviceProblems
    await startReported()
    await report(1, [refused, lost])
    expect(problems()).toEqual([refused, lost])
    await between()
    await report(2)
    expect(problems()).toEqual([refused])
    await report(3, [])
    expect(problems()).toBeUndefined()
  },
)

it('the slots are written once in ten seconds at most, and stay until they are known', async () => {
  const usedBy = (pod: string) =>
    new Map([[instance, [{ slot: 'lab-8120fe-0' as SlotName, pod, since: 'then' }]]])
  await startReported()
  for (let second = 0; second < 8; second++) {
    writer.reportSlots(usedBy(`lab/user-${second}`))
    // A status that is as before takes no slots with it.
    await report(1, undefined, 1000)
  }
  expect(requests().length).toBeLessThanOrEqual(1)
  await clock.advance(10_000)
  expect(requests().length).toBeLessThanOrEqual(2)
  const last = Object.fromEntries(usedBy('lab/user-7'))
  expect(stored()).toMatchObject({ slots: last })
  // Slots that are as before take no wish back.
  wish({ uid: 'u', wish: 'join' })
  await clock.advance(200)
  wanted.clear()
  api.requests.length = 0
  writer.reportSlots(usedBy('lab/user-7'))
  await clock.advance(MINUTE)
  expect(requests()).toEqual([])
  await restart()
  await report(2)
  expect(stored()).toMatchObject({ slots: last })
  writer.reportSlots(new Map())
  await clock.advance(10_000)
  expect(stored()).not.toHaveProperty('slots')
})

it('Pods to end are in the report of a node at once, and as long as they are there', async () => {
  await startReported()
  const pods = new Map([[objectKey('lab', 'user'), { uid: 'u', slot: 'cam-8120fe-0' }]])
  for (const expected of [['PATCH'], []]) {
    writer.reportPodsToEnd(new Map(pods))
    await clock.advance(200)
    expect(stored()).toMatchObject({ podsToEnd: Object.fromEntries(pods) })
    expect(requests()).toEqual(expected)
    api.requests.length = 0
  }
  writer.reportPodsToEnd(new Map())
  await clock.advance(200)
  expect(stored()).not.toHaveProperty('podsToEnd')
})

describe('the report of a node', () => {
  it('is created once, with the changes of a moment, and belongs to its Node', async () => {
    await start({ agentPod: 'agent-x' })
    for (let devices = 0; devices < 50; devices++) writer.report(key, statusWith(devices))
    await clock.advance(199)
    expect(requests()).toEqual([])
    await clock.advance(1)
    expect(requests()).toEqual(['GET', 'POST all'])
    const owner = { apiVersion: 'v1', kind: 'Node', name: NODE, uid: 'uid-node' }
    expect(stored()).toMatchObject({
      metadata: { name: NODE, ownerReferences: [owner] },
      agentPod: 'agent-x',
      counts: { configurations: 1, ready: 1, devices: 49 },
      configurations: { [key]: entry(49) },
      memberships: {},
    })
    expect(stored().metadata.ownerReferences).not.toMatchObject([{ blockOwnerDeletion: true }])
    api.remove(`/api/v1/nodes/${NODE}`)
    api.remove(REPORT)
    await report(1)
    expect(stored().metadata).not.toHaveProperty('ownerReferences')
  })

  it('is written with what has changed, and not at all without a change', async () => {
    await startReported()
    writer.report(key, { ...statusWith(3), leftOut: 7 })
    await clock.advance(200)
    await report(3)
    expect(api.sent('PATCH')).toEqual([
      { counts: { devices: 3 }, configurations: { [key]: { devices: 3, leftOut: 7 } } },
      { configurations: { [key]: { leftOut: null } } },
    ])
    api.requests.length = 0
    for (let round = 0; round < 20; round++) {
      put({ ...configurationWith(), status: { nodes: {} } as never })
      await report(3, undefined, 1000)
    }
    expect(requests()).toEqual([])
  })

  it('loses the status of a Configuration that was deleted or has a successor', async () => {
    await startReported()
    put(configurationWith({}, { uid: 'u2' }))
    await report(4)
    expect(stored().configurations).toEqual({ [key]: { ...entry(4), uid: 'u2' } })
    api.remove(CONFIGURATION)
    await clock.advance(200)
    expect(stored().configurations).toEqual({})
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('keeps what the agent before has written of Configurations that still exist', async () => {
    await startReported()
    const dog = objectKey('default', 'dog')
    api.put(REPORT, { ...stored(), configurations: { [key]: entry(1), [dog]: entry(9) } } as never)
    await restart()
    await clock.advance(200)
    expect(stored().configurations).toEqual({ [key]: entry(1) })
    await report(1, undefined, MINUTE)
    expect(requests()).toEqual(['GET', 'PATCH'])
  })

  it('is corrected after another program has written it', async () => {
    await startReported()
    const foreign = { ...stored(), counts: {}, configurations: { 'a/b': entry(9) } }
    api.put(REPORT, foreign as never)
    await clock.advance(10 * MINUTE)
    expect(stored().counts).toEqual({ configurations: 1, ready: 1, devices: 1 })
    expect(stored().configurations).toEqual({ [key]: entry(1) })
    expect(requests()).toEqual(['GET', 'PATCH'])
  })

  it('is created again with the next write after it was deleted, or after a while', async () => {
    await startReported()
    api.remove(REPORT)
    await report(2)
    expect(requests()).toEqual(['PATCH', 'POST all'])
    api.remove(REPORT)
    await clock.advance(10 * MINUTE)
    expect(stored().configurations).toEqual({ [key]: entry(2) })
    api.requests.length = 0
    await clock.advance(60 * MINUTE)
    expect(requests().every((method) => method === 'GET')).toBe(true)
    expect(requests().length).toBeLessThanOrEqual(6)
  })

  it('waits for a random time that grows with the nodes, at most six seconds', async () => {
    const waits = async (nodes: number) => {
      await start({ random: () => 0.999, nodes })
      const before = clock.monotonicMs()
      while (requests().length < 2) await clock.advance(1)
      await end()
      api.requests.length = 0
      api.remove(REPORT)
      return clock.monotonicMs() - before
    }
    expect(await waits(1)).toBeLessThan(110)
    expect(await waits(100)).toBeGreaterThan(250)
    const most = await waits(100_000)
    expect(most).toBeGreaterThan(2500)
    expect(most).toBeLessThanOrEqual(6000)
  })
})

describe('the wishes of a node about shared Instances', () => {
  const join: Membership = { uid: 'u-8120fe', wish: 'join' }
  const leave: Membership = { uid: 'u-8120fe', wish: 'leave' }
  const many = { random: () => 0.999, nodes: 1000 }
  /** Of an agent whose report still asks to leave. */
  const startLeaving = async (started?: Started) => {
    await startReported(started)
    wish(leave)
    await clock.advance(MINUTE)
    wanted.clear()
  }

  it('are written at once, and the status that waits with them', async () => {
    await startReported({ nodes: 40 })
    await report(2, undefined, 500)
    expect(requests()).toEqual([])
    wish(join)
    await clock.advance(278)
    expect(stored().configurations).toEqual({ [key]: entry(2) })
    expect(wishes()).toEqual({ [instance]: join })
    await clock.advance(MINUTE)
    expect(requests()).toEqual(['PATCH'])
    await report(3, undefined, 1057)
    expect(requests()).toEqual(['PATCH'])
    await clock.advance(1)
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('are in the report until the next write without them', async () => {
    await startReported()
    wish(join)
    await clock.advance(200)
    wanted.clear()
    await clock.advance(MINUTE)
    expect(wishes()).toEqual({ [instance]: join })
    expect(requests()).toEqual(['PATCH'])
    await report(2)
    expect(wishes()).toEqual({})
  })

  it('A10 R98 are withdrawn at once for containers that run', async () => {
    await startLeaving(many)
    expect(wishes()).toEqual({ [instance]: leave })
    const withdrawn = writer.leaveWithdrawn(instance)
    await clock.advance(0)
    await withdrawn
    expect(wishes()).toEqual({})
    // There is nothing to withdraw any more.
    await writer.leaveWithdrawn(instance)
    expect(requests()).toEqual(['PATCH', 'PATCH'])
  })

  it('A10 R98 are waited for some seconds at most, also without a report', async () => {
    await startLeaving()
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

  it('A10 R98 are without those of the agent before, soon after a start', async () => {
    await startLeaving(many)
    await restart(many)
    await clock.advance(6000)
    expect(wishes()).toEqual({})
    expect(stored().configurations).toEqual({ [key]: entry(1) })
  })
})

describe('a report that cannot be written', () => {
  it('is read again and retried with a back-off: the write may have been stored', async () => {
    await startReported()
    let failures = 3
    api.refusal = ({ method }) =>
      method === 'PATCH' && failures-- > 0 ? { status: 500, message: 'refused' } : undefined
    await report(2, undefined, 10_000)
    expect(stored().configurations).toEqual({ [key]: entry(2) })
    expect(requests().join(' ')).toBe('PATCH GET PATCH GET PATCH GET PATCH')
    expect(logged).toEqual(Array(3).fill('report of the node not written'))
  })

  it('is looked for rarely without its custom resource, which is logged once', async () => {
    let isInstalled = false
    api.refusal = ({ path }) =>
      path.startsWith(REPORTS) && !isInstalled
        ? { status: 404, message: 'no such page' }
        : undefined
    await start()
    for (let devices = 0; devices < 60; devices++) await report(devices, undefined, 10_000)
    expect(requests().length).toBeLessThanOrEqual(20)
    expect(writer.isMissing).toBe(true)
    expect(logged).toEqual(['custom resource not installed'])
    isInstalled = true
    await clock.advance(2 * MINUTE)
    expect(stored().configurations).toEqual({ [key]: entry(59) })
    expect(writer.isMissing).toBe(false)
  })
})

it('an invalid Configuration has its problem in the report until it is deleted', async () => {
  put(configurationWith({ capacity: 0 }))
  await start()
  await clock.advance(200)
  const message = expect.stringMatching(/^spec\.capacity: /)
  const invalid = { reason: 'InvalidConfiguration', message }
  expect(stored().configurations).toMatchObject({ [key]: { conditions: [invalid] } })
  api.remove(CONFIGURATION)
  await clock.advance(200)
  expect(stored().configurations).toEqual({})
})
