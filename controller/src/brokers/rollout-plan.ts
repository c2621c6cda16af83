import type { RollingUpdate } from '@akrijs/api'
import type { PodPlan } from './pod-plan.js'

// How many brokers of a Configuration are replaced at once. A pure function of the plans for its
// Instances, and so of the Pods: another replica, or the same one after a restart, goes on where
// the roll-out stands.

type InstancePlan = Pick<PodPlan, 'update' | 'waits' | 'desired' | 'missing'>

interface RolloutPlan<T> {
  /** The plans whose `update` is carried out now. */
  readonly update: readonly T[]
  /** Whether Pods wait for brokers that are missing. */
  readonly isBlocked: boolean
  readonly missing: number
}

const DEFAULT_SHARE = '10%'

/** As in a Deployment, a percentage is rounded down. At least 1: a roll-out has to go on. */
export function unavailableBrokers(
  limit: RollingUpdate['maxUnavailable'] = DEFAULT_SHARE,
  desired: number,
): number {
  const count =
    typeof limit === 'number' ? limit : Math.floor((desired * Number.parseInt(limit, 10)) / 100)
  return Math.max(1, count)
}

/** @param plans of all Instances, always in the same order */
export function planRollout<T extends InstancePlan>(
  plans: readonly T[],
  limit: RollingUpdate['maxUnavailable'],
): RolloutPlan<T> {
  const sum = (number: (plan: T) => number) =>
    plans.reduce((before, plan) => before + number(plan), 0)
  const missing = sum((plan) => plan.missing)
  const room = Math.max(
    0,
    unavailableBrokers(
      limit,
      sum(({ desired }) => desired),
    ) - missing,
  )
  const candidates = plans.filter(({ update }) => update !== undefined)
  return {
    update: candidates.slice(0, room),
    isBlocked: candidates.length > 0 ? room === 0 : missing > 0 && plans.some(({ waits }) => waits),
    missing,
  }
}
