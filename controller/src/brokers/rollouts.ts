import { configurationOf, type Instance, type RollingUpdate } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import type { FirstSights } from '../first-sights.js'
import type { PodPlan } from './pod-plan.js'

/** What a roll-out needs of the plan of an Instance. */
type InstancePlan = Pick<PodPlan, 'update' | 'waits' | 'desired' | 'missing'>

type Limit = RollingUpdate['maxUnavailable']

interface RolloutPlan {
  /** The Instances whose `update` may be carried out now. */
  readonly update: readonly ObjectKey[]
  /** Whether brokers of an earlier spec wait for brokers that are missing. */
  readonly isBlocked: boolean
  /** How many brokers are missing. */
  readonly missing: number
}

interface Rollout {
  /** The last plan of each Instance: any replica makes the same ones from the same objects. */
  readonly plans: Map<ObjectKey, InstancePlan>
  limit: Limit
}

/** Before an Instance is planned, nothing of its Configuration may be replaced. */
const NOT_PLANNED: InstancePlan = {
  update: undefined,
  waits: false,
  desired: 0,
  missing: Number.POSITIVE_INFINITY,
}

/** After so long without progress a roll-out is stuck, whatever the reason, in milliseconds. */
const SLOW_MS = 10 * 60_000

/**
 * Which working broker Pods of an earlier spec may be replaced now: a few of a Configuration at a
 * time. The last plans of its Instances, and their sums.
 */
export class Rollouts {
  readonly #sights: FirstSights
  readonly #wake: (instance: ObjectKey) => void
  readonly #rollouts = new Map<ObjectKey, Rollout>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()

  /**
   * @param instances all of them: a new leader replaces nothing before it has planned these
   * @param wake reconciles the brokers of an Instance, one of which may be replaced now
   */
  constructor(
    sights: FirstSights,
    instances: Iterable<Instance>,
    wake: (instance: ObjectKey) => void,
  ) {
    this.#sights = sights
    this.#wake = wake
    for (const instance of instances)
      this.#of(configurationOf(instance)).plans.set(keyOf(instance), NOT_PLANNED)
  }

  /** How far the roll-out is, and in how many milliseconds it is slow. */
  of(configuration: ObjectKey): RolloutPlan & { readonly slowInMs: number | undefined } {
    const plan = this.#plan(configuration)
    const slowInMs = plan.isBlocked
      ? Math.max(0, SLOW_MS - this.#sights.ageMs(sightOf(configuration), 'true'))
      : undefined
    return { ...plan, slowInMs }
  }

  /** Calls back with a Configuration after each plan in its roll-out. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  /** The Instance has gone, or no Configuration owns it: no roll-out waits for its brokers. */
  forget(instance: ObjectKey): void {
    for (const [configuration, { plans }] of this.#rollouts) {
      if (!plans.delete(instance)) continue
      if (plans.size === 0) this.#rollouts.delete(configuration)
      for (const next of this.#follow(configuration)) this.#wake(next)
    }
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
    const rollout = this.#of(configuration)
    rollout.limit = limit
    rollout.plans.set(instance, plan)
    let next = this.#follow(configuration)
    const isPermitted = next.includes(instance)
    if (isPermitted) {
      rollout.plans.set(instance, { ...plan, update: undefined, missing: plan.missing + 1 })
      next = this.#follow(configuration)
    }
    for (const other of next) this.#wake(other)
    return isPermitted
  }

  /**
   * Dates that the roll-out begins or ends to be blocked.
   * @returns the Instances whose Pod may be replaced now
   */
  #follow(configuration: ObjectKey): readonly ObjectKey[] {
    const { update, isBlocked } = this.#plan(configuration)
    this.#sights.ageMs(sightOf(configuration), String(isBlocked))
    if (isBlocked || update.length > 0) this.#listeners.tell(configuration)
    return update
  }

  #plan(configuration: ObjectKey): RolloutPlan {
    const { plans, limit } = this.#rollouts.get(configuration) ?? NO_ROLLOUT
    return planRollout(plans, limit)
  }

  #of(configuration: ObjectKey): Rollout {
    const rollout = this.#rollouts.get(configuration) ?? { plans: new Map(), limit: undefined }
    this.#rollouts.set(configuration, rollout)
    return rollout
  }
}

const NO_ROLLOUT = { plans: new Map<ObjectKey, InstancePlan>(), limit: undefined }

const sightOf = (configuration: ObjectKey) => `roll-out of ${configuration}`

const DEFAULT_SHARE = '10%'

/** As in a Deployment, a percentage is rounded down. At least 1: a roll-out has to go on. */
export function unavailableBrokers(limit: Limit = DEFAULT_SHARE, desired: number): number {
  const count =
    typeof limit === 'number' ? limit : Math.floor((desired * Number.parseInt(limit, 10)) / 100)
  return Math.max(1, count)
}

/**
 * Which brokers of a Configuration are replaced now. A pure function of the plans for its
 * Instances, and so of the Pods: another replica goes on where the roll-out stands.
 */
export function planRollout(
  plans: ReadonlyMap<ObjectKey, InstancePlan>,
  limit: Limit,
): RolloutPlan {
  let desired = 0
  let missing = 0
  let waits = false
  const candidates: ObjectKey[] = []
  for (const [instance, plan] of plans) {
    desired += plan.desired
    missing += plan.missing
    waits ||= plan.waits
    if (plan.update !== undefined) candidates.push(instance)
  }
  const room = Math.max(0, unavailableBrokers(limit, desired) - missing)
  return {
    update: room === 0 ? [] : candidates.sort().slice(0, room),
    isBlocked: candidates.length > 0 ? room === 0 : missing > 0 && waits,
    missing,
  }
}
