import type { Instance, UpdateStrategy } from '@akrijs/api'
import { ANNOTATIONS } from '../labels.js'
import type { Job, Pod } from '../objects.js'
import { restart, restartsOf } from './backoff.js'
import { isRefused } from './pod-plan.js'

// Which broker Job an Instance should have. It is made once for each spec: `status.brokerJob` of the Instance remembers it
// when it has gone, because what a Job does to a device, such as an update of its firmware, must not be done again because
// somebody tidied up.

export interface JobPlanInput {
  readonly instance: Instance
  /** Of the spec that the Job should be made from; undefined where there should be none. */
  readonly specHash: string | undefined
  readonly strategy: UpdateStrategy
  /** The Jobs that belong to the Instance. */
  readonly jobs: readonly Job[]
  /** The Pods of a Job. */
  podsOf(job: Job): readonly Pod[]
  /** How often in a row the Job was made again, where it has gone already. */
  readonly restarts: number
  /** Before when it is not to be made, since the epoch. */
  readonly notBefore: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

export type JobPlan =
  | { readonly do: 'nothing'; readonly lookAgainAt?: number }
  | { readonly do: 'create'; readonly restarts: number }
  /** Writes down that it has been made. */
  | { readonly do: 'remember'; readonly job: Job }
  /** One of before there were hashes: it counts as made from the present spec. */
  | { readonly do: 'adopt'; readonly job: Job }
  | { readonly do: 'remove'; readonly jobs: readonly Job[]; readonly why: string }
  /** None of its Pods was let in by a kubelet: it is as if it had never been made, also where it goes by itself. */
  | {
      readonly do: 'forget'
      readonly job: Job
      readonly restarts: number
      readonly notBefore: number
    }
  /** Takes it away for another one. */
  | { readonly do: 'repeat'; readonly job: Job; readonly restarts: number }

export function planJob({
  instance,
  specHash,
  strategy,
  jobs,
  podsOf,
  restarts,
  notBefore,
  now,
}: JobPlanInput): JobPlan {
  const present = jobs.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  if (specHash === undefined || instance.metadata.deletionTimestamp !== undefined)
    return present.length > 0
      ? { do: 'remove', jobs: present, why: 'no Job is wanted' }
      : { do: 'nothing' }

  const made = instance.status?.brokerJob
  const current = present.find((job) => hashOf(job) === specHash)
  const unknown = newest(present.filter((job) => hashOf(job) === undefined))
  if (current === undefined && unknown !== undefined) return { do: 'adopt', job: unknown }

  const others = present.filter((job) => job !== current)
  // With OnDelete an old Job is for somebody else to delete, and stands in the way until then.
  if (others.length > 0 && (strategy === 'RollingUpdate' || current !== undefined))
    return { do: 'remove', jobs: others, why: 'the spec has changed' }

  if (current !== undefined) {
    if (!wasRefused(current, podsOf(current))) {
      const isKnown = made?.specHash === specHash && made.name === current.metadata.name
      return isKnown ? { do: 'nothing' } : { do: 'remember', job: current }
    }
    const next = restart(
      { restarts: restartsOf(current), refused: true, ranMs: 0 },
      current.metadata.uid,
    )
    const due = (current.endedAt ?? 0) + next.waitMs
    if (made !== undefined)
      return { do: 'forget', job: current, restarts: next.restarts, notBefore: due }
    return due <= now
      ? { do: 'repeat', job: current, restarts: next.restarts }
      : { do: 'nothing', lookAgainAt: due }
  }
  // The old one still uses the device.
  if (jobs.length > 0 || made?.specHash === specHash) return { do: 'nothing' }
  return notBefore <= now ? { do: 'create', restarts } : { do: 'nothing', lookAgainAt: notBefore }
}

/** Whether it failed without ever having run: then its limit was used up by refusals. */
function wasRefused({ outcome }: Job, pods: readonly Pod[]): boolean {
  return (
    outcome === 'failed' &&
    pods.some(isRefused) &&
    pods.every((pod) => isRefused(pod) && !pod.hasRun)
  )
}

function newest(jobs: readonly Job[]): Job | undefined {
  return jobs.toSorted((a, b) =>
    a.metadata.creationTimestamp < b.metadata.creationTimestamp ? 1 : -1,
  )[0]
}

function hashOf({ metadata }: Job): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.specHash]
}
