import { configurationOf, type Instance, type RollingUpdate } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import type { FirstSights } from '../first-sights.js'
import type { PodPlan } from './pod-plan.js'

/** What a roll-out needs of the plan of an Instance. */
type InstancePlan = Pick<PodPlan, 'update' | 'waits' | 'desired' | 'missing'>

type Limit = RollingUpdate['maxUnavailable']

/**
 * Before an Instance is planned, nothing of its Configuration may be replaced: more brokers are
 * missing than any limit. A finite number, because sums take it back.
 */
const NOT_PLANNED: InstancePlan = { update: undefined, waits: false, desired: 0, missing: 2 ** 36 }

const NO_PLAN: InstancePlan = { update: undefined, waits: false, desired: 0, missing: 0 }

/** After so long without progress a roll-out is stuck, whatever the reason, in milliseconds. */
const SLOW_MS = 10 * 60_000

/**
 * Which working broker Pods of an earlier spec may be replaced now: a few of a Configuration at a
 * time. The last plans of its Instances, and their sums.
 */
export class Rollouts {
  readonly #sights: FirstSights
  readonly #rollouts = new Map<ObjectKey, Rollout>()
  /** The Configuration in whose roll-out each Instance counts: users can edit Instances. */
  readonly #configurations = new Map<ObjectKey, ObjectKey>()
  readonly #listeners = new Listeners<[instances: readonly ObjectKey[]]>()

  /** @param instances all of them: a new leader replaces nothing before it has planned these */
  constructor(sights: FirstSights, instances: Iterable<Instance>) {
    this.#sights = sights
    for (const instance of instances)
      this.#of(keyOf(instance), configurationOf(instance)).set(keyOf(instance), NOT_PLANNED)
  }

  /** Calls back with Instances, one broker of each of which may be replaced now. */
  onRoom(listener: (instances: readonly ObjectKey[]) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  /** How far the roll-out is, and in how many milliseconds it is slow. */
  of(configuration: ObjectKey): Pick<Rollout, 'isBlocked' | 'missing'> & {
    readonly slowInMs: number | undefined
  } {
    const { isBlocked, missing } = this.#rollouts.get(configuration) ?? new Rollout()
    const slowInMs = isBlocked
      ? Math.max(0, SLOW_MS - this.#sights.ageMs(sightOf(configuration), 'true'))
      : undefined
    return { isBlocked, missing, slowInMs }
  }

  /**
   * A Pod of the Instance has changed: all of its brokers count as missing until its next plan, for
   * which it may wait in a long queue.
   */
  outdate(instance: ObjectKey): void {
    const configuration = this.#configurations.get(instance)
    if (configuration !== undefined) this.#rollouts.get(configuration)?.outdate(instance)
  }

  /** The Instance has gone, or no Configuration owns it: no roll-out waits for its brokers. */
  forget(instance: ObjectKey): void {
    const configuration = this.#configurations.get(instance)
    if (configuration === undefined) return
    const rollout = this.#rollouts.get(configuration) ?? new Rollout()
    this.#configurations.delete(instance)
    rollout.set(instance, undefined)
    if (rollout.size === 0) this.#rollouts.delete(configuration)
    this.#date(configuration, rollout)
    this.#listeners.tell(rollout.update)
  }

  /**
   * Takes over the plan of an Instance.
   * @returns whether its Pod of an earlier spec is replaced now: it counts as missing from then on
   */
  permits(
    instance: ObjectKey,
    configuration: ObjectKey,
    plan: InstancePlan,
    limit: Limit,
  ): boolean {
    const rollout = this.#of(instance, configuration)
    rollout.limit = limit
    rollout.set(instance, plan)
    this.#date(configuration, rollout)
    const isPermitted = rollout.update.includes(instance)
    if (isPermitted) {
      rollout.set(instance, { ...plan, update: undefined, missing: plan.missing + 1 })
      this.#date(configuration, rollout)
    }
    this.#listeners.tell(rollout.update)
    return isPermitted
  }

  /** Dates that the roll-out begins or ends to be blocked. */
  #date(configuration: ObjectKey, { isBlocked }: Rollout): void {
    this.#sights.ageMs(sightOf(configuration), String(isBlocked))
  }

  /** The roll-out of the Configuration, in which alone the Instance counts from now on. */
  #of(instance: ObjectKey, configuration: ObjectKey): Rollout {
    if (this.#configurations.get(instance) !== configuration) this.forget(instance)
    this.#configurations.set(instance, configuration)
    const rollout = this.#rollouts.get(configuration) ?? new Rollout()
    this.#rollouts.set(configuration, rollout)
    return rollout
  }
}

const sightOf = (configuration: ObjectKey) => `roll-out of ${configuration}`

const DEFAULT_SHARE = '10%'

/** As in a Deployment, a percentage is rounded down. At least 1: a roll-out has to go on. */
export function unavailableBrokers(limit: Limit = DEFAULT_SHARE, desired: number): number {
  const count =
    typeof limit === 'number' ? limit : Math.floor((desired * Number.parseInt(limit, 10)) / 100)
  return Math.max(1, count)
}

/**
 * Which brokers of a Configuration are replaced now. A pure function of the last plans of its
 * Instances, and so of the Pods: another replica goes on where the roll-out stands. Sums, because
 * each of 10,000 Instances is planned after each change of its Pods.
 */
export class Rollout {
  limit: Limit
  readonly #plans = new Map<ObjectKey, InstancePlan>()
  /** The Instances whose plan has an `update`, by name. */
  readonly #candidates: ObjectKey[] = []
  #desired = 0
  #missing = 0
  #waiting = 0

  get size(): number {
    return this.#plans.size
  }

  /** How many brokers are missing. */
  get missing(): number {
    return this.#missing
  }

  /** The Instances whose `update` may be carried out now. */
  get update(): readonly ObjectKey[] {
    return this.#candidates.slice(0, this.#room)
  }

  /** Whether brokers of an earlier spec wait for brokers that are missing. */
  get isBlocked(): boolean {
    return this.#candidates.length > 0 ? this.#room === 0 : this.#missing > 0 && this.#waiting > 0
  }

  get #room(): number {
    return Math.max(0, unavailableBrokers(this.limit, this.#desired) - this.#missing)
  }

  /** @param plan undefined if there is no such Instance any more */
  set(instance: ObjectKey, plan: InstancePlan | undefined): void {
    const before = this.#plans.get(instance) ?? NO_PLAN
    const after = plan ?? NO_PLAN
    if (plan === undefined) this.#plans.delete(instance)
    else this.#plans.set(instance, plan)
    this.#desired += after.desired - before.desired
    this.#missing += after.missing - before.missing
    this.#waiting += Number(after.waits) - Number(before.waits)
    const names = this.#candidates
    if (before.update !== undefined) names.splice(names.indexOf(instance), 1)
    if (after.update === undefined) return
    names.splice(names.findLastIndex((name) => name < instance) + 1, 0, instance)
  }

  outdate(instance: ObjectKey): void {
    const plan = this.#plans.get(instance)
    if (plan === undefined) return
    const missing = Math.max(plan.missing, plan.desired)
    this.set(instance, { ...plan, update: undefined, missing })
  }
}
