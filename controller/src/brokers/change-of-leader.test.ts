import { setImmediate } from 'node:timers/promises'
import { type ConfigurationSpec, parseInstanceObject } from '@akrijs/api'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import { ClusterState } from '../cluster-state.js'
import { control } from '../controller.js'
import { AKRI, CONFIGURATION, T0, testConfiguration, testInstance } from '../testing/objects.js'
import { historyOf } from './broker-history.js'

const PODS = '/api/v1/namespaces/plant/pods/'
const JOBS = '/apis/batch/v1/namespaces/plant/jobs/'
const DEVICES = ['cam-000000', 'cam-000001', 'cam-000002']
/** Where each write of the controller counts as a step. */
const STEPS =
  /^\/(api\/v1|apis\/batch\/v1|apis\/akri\.sh\/v0)\/namespaces\/plant\/(pods|jobs|instances)/

type Broker = Pick<ConfigurationSpec, 'brokerSpec'>
const pods = (image: string): Broker => ({
  brokerSpec: { brokerPodSpec: { containers: [{ name: 'x', image }] } },
})
const jobs = (image: string): Broker => ({
  brokerSpec: { brokerJobSpec: { template: { spec: { containers: [{ name: 'x', image }] } } } },
})

/** A cluster of two nodes and three devices, whose controller can end at any write. */
class Cluster {
  readonly #clock = new ManualClock(T0)
  readonly #api = new FakeApiServer(this.#clock)
  readonly #ends: AbortController[] = []
  #generation = 0
  writes = 0
  /** How many brokers were ready beside one that was deleted: the fewest. */
  fewest = Infinity
  /** Whether the leader has ended, and no other one has begun. */
  isWithoutLeader = false

  constructor(broker: Broker) {
    for (const node of ['a', 'b'])
      this.#api.put(`/api/v1/nodes/${node}`, {
        status: { conditions: [{ type: 'Ready', status: 'True' }] },
      })
    for (const name of DEVICES)
      this.#api.put(`${AKRI}/instances/${name}`, { ...testInstance(['a', 'b'], { name }) })
    // The question whether a Pod would be refused creates none.
    this.#api.refusal = ({ query }) =>
      query.has('dryRun') ? { status: 404, message: 'no dry run' } : undefined
    this.specify(broker)
  }

  specify(broker: Broker): void {
    this.#generation += 1
    const { metadata, ...rest } = testConfiguration(broker)
    const generation = this.#generation
    this.#api.put(CONFIGURATION, { ...rest, metadata: { ...metadata, generation } })
  }

  /** Changes the status of the Pods of a device, or the number of their restarts. */
  setPods(device: string, status: object, restarts?: number): void {
    for (const [path, pod] of this.#objects(PODS)) {
      if (!path.includes(device)) continue
      const { annotations } = pod.metadata
      const count = restarts === undefined ? {} : { 'akri.sh/restarts': String(restarts) }
      this.#api.put(path, {
        ...pod,
        metadata: { ...pod.metadata, annotations: { ...Object(annotations), ...count } },
        status,
      })
    }
  }

  /** No kubelet has admitted the Pod of the Job of a device. */
  refuseJob(device: string): void {
    for (const [path, job] of this.#objects(JOBS)) {
      if (!path.includes(device)) continue
      const { name, uid } = job.metadata
      const owner = { apiVersion: 'batch/v1', kind: 'Job', name, uid, controller: true }
      this.#api.put(`${PODS}${name}-1`, {
        metadata: { labels: { controller: 'akri.sh' }, ownerReferences: [owner] },
        status: { phase: 'Failed', reason: 'UnexpectedAdmissionError' },
      })
      const conditions = [{ type: 'Failed', status: 'True' }]
      this.#api.put(path, { ...job, status: { conditions, failed: 1 } })
    }
  }

  /** A replica leads. @param last its last write, of which it never hears */
  lead(last = Infinity): void {
    const { signal } = this.#begin()
    this.writes = 0
    const replica = { isDead: false }
    this.isWithoutLeader = false
    const client = this.#api.client(({ method, path, query }) => {
      if (replica.isDead) return { arrivesIn: Infinity }
      if (method === 'DELETE' && path.startsWith(PODS))
        this.fewest = Math.min(this.fewest, this.#readyBeside(path))
      if (method === 'GET' || query.has('dryRun') || !STEPS.test(path)) return {}
      this.writes += 1
      replica.isDead = this.writes === last
      this.isWithoutLeader = replica.isDead
      return replica.isDead ? { answeredIn: Infinity } : {}
    })
    const log = silentLogger
    const clock = this.#clock
    const state = new ClusterState({ client, clock, log, agentNamespace: 'akri' })
    state.start()
    signal.addEventListener('abort', () => void state.close())
    const events = { record() {} }
    void state.synced.then(() =>
      control({ state, client, clock, log, events, nodeGraceMs: 300_000 }, signal),
    )
  }

  end(): void {
    for (const end of this.#ends.splice(0)) end.abort()
  }

  /** Kubelets and controller work, until nothing has changed for longer than any wait. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 22; quiet++) {
      const { version } = this.#api.store
      await this.#clock.advance(20_000)
      for (let turn = 0; turn < 20; turn++) await setImmediate()
      this.#startPods()
      if (this.#api.store.version !== version) quiet = 0
    }
  }

  /** All that a user sees of brokers, and what the controller keeps of them. */
  get world(): unknown {
    const seen = (prefix: string) =>
      this.#objects(prefix).map(([path, { metadata, spec, status }]) => {
        const { annotations } = metadata
        return { path, annotations, spec, status }
      })
    const kept = this.#objects(`${AKRI}/instances/`).map(([path, object]) => {
      const { status, ...instance } = parseInstanceObject(object) ?? expect.fail(path)
      const { left, full } = historyOf(instance)
      const entries = Object.entries(left).map(([node, { uid: _uid, ...rest }]) => [node, rest])
      return { path, left: Object.fromEntries(entries), full, job: status?.brokerJob }
    })
    return { pods: seen(PODS), jobs: seen(JOBS), kept }
  }

  #readyBeside(deleted: string): number {
    const isReady = (status: unknown) => JSON.stringify(status)?.includes('"True"')
    return this.#objects(PODS).filter(([path, { status }]) => path !== deleted && isReady(status))
      .length
  }

  #begin(): AbortController {
    this.end()
    const end = new AbortController()
    this.#ends.push(end)
    return end
  }

  #objects(prefix: string) {
    return [...this.#api.objects].filter(([path]) => path.startsWith(prefix)).sort()
  }

  /** Pods run and are ready, unless their image is bad. Jobs have Pods. */
  #startPods(): void {
    for (const [path, job] of this.#objects(JOBS))
      if (!('status' in job)) this.#api.put(path, { ...job, status: { active: 1 } })
    for (const [path, pod] of this.#objects(PODS)) {
      if ('status' in pod) continue
      const isBad = JSON.stringify(pod.spec).includes('bad')
      const conditions = [{ type: 'Ready', status: isBad ? 'False' : 'True' }]
      this.#api.put(path, { ...pod, status: { phase: 'Running', conditions } })
    }
  }
}

interface Scenario {
  readonly name: string
  readonly before: Broker
  readonly changes: readonly ((cluster: Cluster) => void)[]
  /** How many brokers are ready at any moment. @default any number */
  readonly fewest?: number
}

const SCENARIOS: readonly Scenario[] = [
  {
    name: 'broker Pods of a new spec',
    before: pods('v1'),
    changes: [(cluster) => cluster.specify(pods('v2'))],
    fewest: 2,
  },
  {
    name: 'the broker Pods of a correction',
    before: pods('v1'),
    changes: [(cluster) => cluster.specify(pods('bad')), (cluster) => cluster.specify(pods('v3'))],
    fewest: 2,
  },
  {
    name: 'the successor of a broker Pod that has ended',
    before: pods('v1'),
    changes: [(cluster) => cluster.setPods('cam-000001', { phase: 'Failed' }, 3)],
  },
  {
    name: 'the broker Pod on another node that the first one had no room on',
    before: pods('v1'),
    changes: [(cluster) => cluster.setPods('cam-000002', { phase: 'Pending' })],
  },
  {
    name: 'broker Jobs of a new spec',
    before: jobs('v1'),
    changes: [(cluster) => cluster.specify(jobs('v2'))],
  },
  {
    name: 'another Job in place of one that was refused',
    before: jobs('v1'),
    changes: [(cluster) => cluster.refuseJob('cam-000001')],
  },
  {
    name: 'the first broker Pod of a spec that does not work',
    before: pods('v1'),
    changes: [(cluster) => cluster.specify(pods('bad'))],
  },
  {
    name: 'broker Jobs in place of Pods',
    before: pods('v1'),
    changes: [(cluster) => cluster.specify(jobs('v1'))],
  },
  { name: 'no brokers', before: pods('v1'), changes: [(cluster) => cluster.specify({})] },
]

/** @param last the write after which the first leader ends @default it stays */
async function run({ before, changes }: Scenario, last?: number) {
  const cluster = new Cluster(before)
  try {
    cluster.lead()
    await cluster.settle()
    cluster.lead(last)
    for (const change of changes) {
      change(cluster)
      await cluster.settle()
      if (!cluster.isWithoutLeader) continue
      cluster.lead()
      await cluster.settle()
    }
    return { writes: cluster.writes, world: cluster.world, fewest: cluster.fewest }
  } finally {
    cluster.end()
  }
}

it.each(SCENARIOS)('whenever a leader ends, the next one ends with $name', async (scenario) => {
  const { writes, world } = await run(scenario)
  expect(writes).toBeGreaterThan(1)
  for (let last = 1; last <= writes; last++) {
    const end = await run(scenario, last)
    expect(end.world, `write ${last} of ${writes}`).toEqual(world)
    expect(end.fewest, `write ${last}`).toBeGreaterThanOrEqual(scenario.fewest ?? 0)
  }
})
