import type { Instance, RollingUpdate } from '@akrijs/api'
import { keyParts, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { costOf } from '../../../test/support/cost.js'
import { FirstSights } from '../first-sights.js'
import type { Pod } from '../kubernetes-objects.js'
import { specHashOf } from '../labels.js'
import { T0, type TestPod, testInstance, testPod, withHistory } from '../testing/objects.js'
import { type BrokerHistory, historyOf, replacedBy } from './broker-history.js'
import { isEnded, works } from './broker-state.js'
import { type PodPlan, planPods, withUpdate } from './pod-plan.js'
import { Rollout, Rollouts, unavailableBrokers } from './rollouts.js'

type Limit = RollingUpdate['maxUnavailable']

const CAM = objectKey('plant', 'cam')
const keyOfDevice = (name: string) => objectKey('plant', name)

describe('how many brokers a change makes unavailable', () => {
  it.each<[Limit, number, number]>([
    [undefined, 0, 1],
    [undefined, 19, 1],
    [undefined, 20, 2],
    [3, 10, 3],
    [3, 2, 3],
    ['25%', 6, 1],
    ['25%', 8, 2],
    ['1%', 50, 1],
    ['100%', 7, 7],
  ])('%s of %i is %i: rounded down, and at least 1', (limit, desired, count) => {
    expect(unavailableBrokers(limit, desired)).toBe(count)
  })
})

describe('a roll-out', () => {
  const pod = testPod('a')
  const ready = { update: undefined, waits: false, desired: 1, missing: 0 }
  const outdated = { update: pod, waits: false, desired: 1, missing: 0 }
  const missing = { update: undefined, waits: false, desired: 1, missing: 1 }
  type Plan = typeof ready | typeof outdated
  const rollout = (plans: readonly Plan[], limit?: Limit) => {
    const found = new Rollout()
    found.limit = limit
    for (const [index, plan] of plans.entries()) found.set(keyOfDevice(String(index)), plan)
    return found
  }
  const counts = (plans: readonly Plan[], limit?: Limit) => {
    const { update, isBlocked } = rollout(plans, limit)
    return [update.length, isBlocked]
  }

  it('replaces as many brokers as may be missing', () => {
    const old = Array.from({ length: 6 }, () => outdated)
    expect(counts(old)).toEqual([1, false])
    expect(counts(old, '50%')).toEqual([3, false])
    expect(counts([missing, ...old.slice(1)], '50%')).toEqual([2, false])
    expect(counts([missing, ...old], 1)).toEqual([0, true])
    expect(counts([missing, missing, ...old], 1)).toEqual([0, true])
    expect(counts([missing, ready], 1)).toEqual([0, false])
  })

  it('is blocked too if all earlier brokers are of the Instance that misses one', () => {
    const waiting = { ...missing, waits: true }
    expect(counts([waiting, ready])).toEqual([0, true])
    expect(counts([{ ...waiting, missing: 0 }])).toEqual([0, false])
    expect(counts([waiting, outdated], 2)).toEqual([1, false])
  })

  it('takes the first Instances by name', () => {
    const found = new Rollout()
    for (const name of ['2', '0', '1']) found.set(keyOfDevice(name), outdated)
    expect(found.update).toEqual([keyOfDevice('0')])
  })
})

describe('the roll-outs of Configurations', () => {
  const outdated = { update: testPod('a'), waits: false, desired: 1, missing: 0 }
  const working = { ...outdated, update: undefined }
  const missing = { ...working, missing: 1 }

  it('report that nothing waits any more', () => {
    const rollouts = new Rollouts(new FirstSights({ monotonicMs: () => T0 }), [])
    rollouts.permits(keyOfDevice('a'), CAM, missing, undefined)
    rollouts.permits(keyOfDevice('b'), CAM, outdated, undefined)
    expect(rollouts.of(CAM).isBlocked).toBe(true)
    // No node could run a successor.
    rollouts.permits(keyOfDevice('b'), CAM, working, undefined)
    expect(rollouts.of(CAM).isBlocked).toBe(false)
  })

  it('lose an Instance that a person gave to another Configuration', () => {
    const rollouts = new Rollouts(new FirstSights({ monotonicMs: () => T0 }), [])
    rollouts.permits(keyOfDevice('a'), CAM, missing, undefined)
    rollouts.permits(keyOfDevice('a'), objectKey('plant', 'dog'), missing, undefined)
    expect(rollouts.of(CAM).missing).toBe(0)
    expect(rollouts.permits(keyOfDevice('b'), CAM, outdated, undefined)).toBe(true)
  })

  it('take in 10,000 plans of one Configuration, each in the same time', async () => {
    const keys = Array.from({ length: 10_000 }, (_, index) => keyOfDevice(String(index)))
    const cost = await costOf(() => {
      const rollouts = new Rollouts(new FirstSights({ monotonicMs: () => T0 }), [])
      for (const key of keys) rollouts.permits(key, CAM, working, undefined)
      const replaced = keys.filter((key) => rollouts.permits(key, CAM, outdated, undefined))
      expect(replaced).toHaveLength(1000)
      for (const key of keys) rollouts.forget(key)
      expect(rollouts.of(CAM).missing).toBe(0)
    })
    // With sums over all plans 38 s.
    expect(cost).toBeLessThan(5000)
  })
})

/** The specs of the model: brokers of the second never work, those of the third do for moments. */
const SPECS = ['good', 'bad', 'crashing', 'fine'] as const
type Spec = (typeof SPECS)[number]
const NODES = ['a', 'b', 'c'] as const

type PodEvent = 'nothing' | 'ready' | 'unready' | 'end'

type Action =
  | { readonly rollOut: true }
  | { readonly reconcile: readonly string[] }
  | { readonly see: true }
  | { readonly live: number; readonly events: readonly PodEvent[] }
  | { readonly rounds: number; readonly ms: number }
  | { readonly spec: Spec }
  | { readonly device: Device }
  | { readonly away: string }
  | { readonly restart: true }

interface Device {
  readonly name: string
  readonly nodes: readonly string[]
  readonly capacity: number
}

interface Broker {
  readonly instance: string
  readonly pod: Pod
}

/** A cluster with a controller, whose cache may be old. */
class Model {
  now = T0
  spec: Spec = 'good'
  readonly limit: Limit
  readonly instances = new Map<string, Instance>()
  readonly away = new Set<string>()
  brokers: Broker[] = []
  /** Nodes of working brokers that the controller has deleted, until others work instead. */
  readonly #lost = new Map<string, readonly string[]>()
  /** The uids of brokers that have worked. */
  readonly #worked = new Set<string>()
  #cache: Broker[] = []
  /** How many brokers each Instance should have, by its last plan. */
  readonly #desired = new Map<string, number>()
  #woken = new Set<ObjectKey>()
  #rollouts = this.#begin()
  #serial = 0

  constructor(limit: Limit) {
    this.limit = limit
  }

  /** A device comes, goes, or gets another capacity. */
  setDevice({ name, nodes, capacity }: Device): void {
    if (nodes.length > 0) {
      const options = { name, capacity: Math.min(capacity, nodes.length) }
      // Fewer brokers are needed, and none was lost for the others.
      const fewer = (this.instances.get(name)?.spec.capacity ?? 0) - options.capacity
      if (fewer > 0) this.#lost.set(name, this.#lostNodes(name).slice(fewer))
      const before = this.instances.get(name)
      const history = before && historyOf(before)
      this.instances.set(name, withHistory(testInstance(nodes, options), history ?? {}))
    } else {
      this.instances.delete(name)
      this.brokers = this.brokers.filter(({ instance }) => instance !== name)
      this.#cache = this.#cache.filter(({ instance }) => instance !== name)
      this.#lost.delete(name)
    }
    this.reconcile(name)
  }

  /** A node goes away or returns. What the controller had deleted there is not missed any more. */
  setAway(node: string): void {
    if (!this.away.delete(node)) {
      this.away.add(node)
      for (const [name, nodes] of this.#lost)
        this.#lost.set(
          name,
          nodes.filter((other) => other !== node),
        )
    }
    for (const name of this.instances.keys()) this.reconcile(name)
  }

  /** Time passes, and kubelets do their work. */
  live(ms: number, eventOf: (index: number) => PodEvent): void {
    this.now += ms
    this.brokers = this.brokers.flatMap((broker, index) => {
      const { pod } = broker
      if (this.away.has(pod.node)) return [broker]
      if (pod.metadata.deletionTimestamp !== undefined) return []
      const change = eventOf(index)
      const spec = specHashOf(pod)
      if (change === 'end') return [this.#with(broker, { phase: 'Failed', ready: false })]
      if (change === 'unready') return [this.#with(broker, { ready: false })]
      if (change !== 'ready' || pod.ready || isEnded(pod) || spec === 'bad') return [broker]
      return [this.#with(broker, { ready: true })]
    })
    this.#findAgain()
    // A crash follows at once, also if the controller never saw the broker ready.
    if (ms === 0) return
    this.brokers = this.brokers.map((broker) =>
      specHashOf(broker.pod) === 'crashing' && broker.pod.ready && !isEnded(broker.pod)
        ? this.#with(broker, { ready: false })
        : broker,
    )
  }

  /** The watch of the controller catches up. The Instances may be planned long after. */
  see(): void {
    const before = this.#cache
    this.#cache = this.brokers
    const changed = [
      ...this.#cache.filter((broker) => !before.includes(broker)),
      ...before.filter((broker) => !this.#cache.includes(broker)),
    ]
    for (const { instance } of changed) this.#rollouts.outdate(keyOfDevice(instance))
  }

  /** Another replica leads. It knows what the API server has: there is nothing else. */
  restart(): void {
    this.see()
    this.#desired.clear()
    this.#rollouts = this.#begin()
  }

  #begin(): Rollouts {
    this.#woken = new Set()
    const sights = new FirstSights({ monotonicMs: () => this.now })
    const rollouts = new Rollouts(sights, this.instances.values())
    rollouts.onRoom((keys) => {
      for (const key of keys) this.#woken.add(key)
    }, new AbortController().signal)
    return rollouts
  }

  reconcile(name: string): void {
    const key = keyOfDevice(name)
    const instance = this.instances.get(name)
    this.#woken.delete(key)
    this.#desired.delete(name)
    if (instance === undefined) {
      this.#rollouts.forget(key)
      return
    }
    this.#findAgain()
    const plan = this.#plan(instance)
    this.#desired.set(name, plan.desired)
    if (!this.#rollouts.permits(key, CAM, plan, this.limit)) {
      this.#carryOut(name, plan)
      return
    }
    const pod = this.brokers.find((broker) => plan.update && isSame(broker.pod, plan.update))?.pod
    if (pod && works(pod, this.now)) this.#lost.set(name, [...this.#lostNodes(name), pod.node])
    this.#carryOut(name, withUpdate(plan))
    const desired = [...this.#desired.values()].reduce((sum, count) => sum + count, 0)
    expect(this.lost).toBeLessThanOrEqual(unavailableBrokers(this.limit, desired))
  }

  /** The controller reconciles the Instances that roll-outs have woken. */
  rollOut(): void {
    for (const key of this.#woken) this.reconcile(keyParts(key).name)
  }

  #carryOut(name: string, { history, remove, create }: PodPlan): void {
    this.#record(name, history)
    for (const { pod } of remove) this.#delete(pod)
    for (const { node, restarts } of create) {
      if (this.brokers.some(({ instance: other, pod }) => other === name && pod.node === node))
        continue
      const metadata = { name: `${name}-${node}-${++this.#serial}`, createdAt: this.now, restarts }
      const broker = {
        instance: name,
        pod: testPod(node, { ...metadata, hash: this.spec, ready: false }),
      }
      this.brokers = [...this.brokers, broker]
      this.#cache = [...this.#cache, broker]
    }
  }

  /** How many brokers the controller has made unavailable. Those of nodes that are away are not. */
  get lost(): number {
    let sum = 0
    for (const [name, { spec }] of this.instances)
      sum += this.#lostOf(
        name,
        spec.nodes.filter((node) => !this.away.has(node)),
      )
    return sum
  }

  get isDone(): boolean {
    return [...this.instances].every(([name, { spec }]) => {
      const hashes = this.#real(name)
        .filter((pod) => this.#isWorking(pod))
        .map(specHashOf)
      return hashes.length === spec.capacity && hashes.every((hash) => hash === this.spec)
    })
  }

  #plan(instance: Instance) {
    const { name } = instance.metadata
    const pods = this.#cachedPods(name)
    return planPods({
      instance,
      specHash: this.spec,
      strategy: 'RollingUpdate',
      pods,
      isUsable: (node) => !this.away.has(node),
      isAway: (node) => this.away.has(node),
      lastOn: () => undefined,
      choiceAt: 0,
      now: this.now,
    })
  }

  #record(name: string, history: BrokerHistory): void {
    const found = this.instances.get(name)
    if (found !== undefined) this.instances.set(name, withHistory(found, history))
  }

  #cachedPods(name: string): Pod[] {
    return this.#cache.flatMap(({ instance, pod }) => (instance === name ? [pod] : []))
  }

  #real(name: string): Pod[] {
    return this.brokers.flatMap(({ instance, pod }) => (instance === name ? [pod] : []))
  }

  /** The watch may be behind: what it shows counts too. */
  #everSeen(name: string): Pod[] {
    const brokers = [...this.brokers, ...this.#cache]
    return brokers.flatMap(({ instance, pod }) => (instance === name ? [pod] : []))
  }

  #isWorking(pod: Pod): boolean {
    return pod.metadata.deletionTimestamp === undefined && works(pod, this.now)
  }

  /**
   * A broker that works for the first time replaces one that was lost; also if it has ended since,
   * and the watch of the controller is behind.
   */
  #findAgain(): void {
    for (const name of this.instances.keys())
      for (const pod of this.#everSeen(name)) {
        const { metadata } = pod
        if (!this.#isWorking(pod)) continue
        if (this.#worked.has(metadata.uid)) continue
        this.#worked.add(metadata.uid)
        const lost = [...this.#lostNodes(name)]
        lost.splice(Math.max(0, lost.indexOf(pod.node)), 1)
        this.#lost.set(name, lost)
      }
  }

  #lostOf(name: string, nodes: readonly NodeName[]): number {
    const instance = this.instances.get(name)
    if (instance === undefined) return 0
    const { capacity } = instance.spec
    const history = historyOf(instance)
    const keepsPlace = (pod: Pod) =>
      (this.away.has(pod.node) || replacedBy(history, pod) !== 'working') &&
      pod.metadata.deletionTimestamp === undefined &&
      !isEnded(pod)
    const pods = this.#everSeen(name)
    const uids = (isSo: (pod: Pod) => boolean) =>
      new Set(pods.filter(isSo).map(({ metadata }) => metadata.uid))
    // A broker keeps its place on a node that is away, although another node could run it. One that
    // replaced no other is not ready by itself.
    const present = uids((pod) => this.#isWorking(pod) || keepsPlace(pod)).size
    const absent = Math.max(0, Math.min(capacity, nodes.length) - present)
    return Math.min(this.#lostNodes(name).length, absent)
  }

  #lostNodes(name: string): readonly string[] {
    return this.#lost.get(name) ?? []
  }

  #delete(pod: Pod): void {
    this.#change(pod, { leaves: true })
  }

  /** In the cluster, and in the cache, which observes the answers to its own requests. */
  #change(pod: Pod, more: TestPod): void {
    const change = (broker: Broker) => (isSame(broker.pod, pod) ? this.#with(broker, more) : broker)
    this.brokers = this.brokers.map(change)
    this.#cache = this.#cache.map(change)
  }

  #with({ instance, pod }: Broker, more: TestPod): Broker {
    const { metadata, node, phase, ready, readySince } = pod
    const before: TestPod = {
      name: metadata.name,
      hash: specHashOf(pod),
      createdAt: Date.parse(metadata.creationTimestamp),
      leaves: metadata.deletionTimestamp !== undefined,
      restarts: Number(metadata.annotations?.['akri.sh/restarts'] ?? 0),
      phase,
      ready,
      readySince: more.ready === undefined || more.ready === ready ? readySince : this.now,
    }
    return { instance, pod: testPod(node, { ...before, ...more }) }
  }
}

const isSame = (a: Pod, b: Pod) => a.metadata.uid === b.metadata.uid

describe('for any changes of specs, devices, capacities, nodes and brokers', () => {
  const names = ['u', 'v', 'w', 'x', 'y', 'z']
  const limit = fc.constantFrom<Limit>(undefined, 1, 2, 3, '25%', '50%', '100%')
  const device = fc.record({
    name: fc.constantFrom(...names),
    nodes: fc.subarray([...NODES]),
    capacity: fc.integer({ min: 1, max: 3 }),
  })
  const event = fc.constantFrom<PodEvent>('nothing', 'ready', 'ready', 'ready', 'unready', 'end')
  const step: fc.Arbitrary<Action> = fc.oneof(
    { weight: 8, arbitrary: fc.record({ rollOut: fc.constant(true as const) }) },
    { weight: 8, arbitrary: fc.record({ reconcile: fc.subarray(names) }) },
    { weight: 6, arbitrary: fc.record({ see: fc.constant(true as const) }) },
    {
      weight: 8,
      arbitrary: fc.record({
        live: fc.constantFrom(0, 1000, 4000, 20_000),
        events: fc.array(event, { minLength: 18, maxLength: 18 }),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({
        rounds: fc.integer({ min: 1, max: 4 }),
        ms: fc.constantFrom(0, 4000, 20_000),
      }),
    },
    { weight: 6, arbitrary: fc.record({ spec: fc.constantFrom(...SPECS) }) },
    { weight: 1, arbitrary: fc.record({ device }) },
    { weight: 1, arbitrary: fc.record({ away: fc.constantFrom(...NODES) }) },
    { weight: 3, arbitrary: fc.record({ restart: fc.constant(true as const) }) },
  )

  function take(model: Model, action: Action): void {
    if ('rollOut' in action) model.rollOut()
    else if ('reconcile' in action) for (const name of action.reconcile) model.reconcile(name)
    else if ('see' in action) model.see()
    else if ('live' in action) model.live(action.live, (index) => action.events[index] ?? 'ready')
    else if ('rounds' in action) work(model, action.rounds, action.ms)
    else if ('spec' in action) model.spec = action.spec
    else if ('device' in action) model.setDevice(action.device)
    else if ('away' in action) model.setAway(action.away)
    else model.restart()
  }

  /** The controller and the kubelets work, until all is done. */
  function work(model: Model, rounds: number, ms: number): void {
    for (let round = 0; round < rounds && !model.isDone; round++) {
      model.see()
      for (const name of model.instances.keys()) model.reconcile(name)
      model.rollOut()
      model.live(ms, () => 'ready')
    }
  }
  const settle = (model: Model) => work(model, 300, 30_000)

  it('makes at most maxUnavailable brokers unavailable, and ends once new brokers work', () => {
    fc.assert(
      fc.property(
        limit,
        fc.array(device, { minLength: 1, maxLength: 6 }),
        fc.array(step, { maxLength: 80 }),
        (maxUnavailable, devices, steps) => {
          const model = new Model(maxUnavailable)
          for (const each of devices) model.setDevice(each)
          settle(model)
          expect(model.isDone).toBe(true)
          for (const action of steps) take(model, action)
          model.away.clear()
          model.spec = 'fine'
          settle(model)
          expect(model.isDone).toBe(true)
        },
      ),
      { numRuns: 150 },
    )
  })
})
