import type { Instance, UpdateStrategy } from '@akrijs/api'
import { isDeleted, type Job, type Pod } from '../kubernetes-objects.js'
import { specHashOf } from '../labels.js'
import { earliest } from '../requeue.js'
import { historyOf, JOB } from './broker-history.js'
import { heldAt } from './held-brokers.js'
import { isEnded, isRefused } from './pod-state.js'
import { restart, restartsOf } from './restart-backoff.js'

// Which broker Job an Instance should have. A Job is created once for each spec, and
// `status.brokerJob` of the Instance records the creation. A Job may update the firmware of a
// device: it must not run again because a person deleted the finished Job.

export interface JobPlanInput {
  readonly instance: Instance
  /** The hash of the specified Job; undefined if no Job is specified. */
  readonly specHash: string | undefined
  readonly strategy: UpdateStrategy
  /** The Jobs that the Instance owns. */
  readonly jobs: readonly Job[]
  podsOf(job: Job): readonly Pod[]
  /** For how long this replica has known what the last Job leaves, in milliseconds. */
  readonly knownForMs: number
  /** By `monotonicMs`. */
  readonly now: number
}

type JobPlan =
  | { readonly do: 'nothing'; readonly recheckAt?: number }
  | { readonly do: 'create'; readonly restarts: number }
  /** Records the creation in the status of the Instance. */
  | { readonly do: 'record'; readonly job: Job }
  /** A Job of a version without spec hashes: it counts as made from the present spec. */
  | { readonly do: 'adopt'; readonly job: Job }
  | { readonly do: 'remove'; readonly jobs: readonly Job[]; readonly reason: string }
  /**
   * No kubelet admitted a Pod of the Job: removes the record of its creation. If a person deletes
   * the Job before its repetition, the Job is created again nevertheless.
   */
  | {
      readonly do: 'forget'
      readonly job: Job
      readonly restarts: number
    }
  /** Removes the Job, for another one of the same spec. */
  | { readonly do: 'repeat'; readonly job: Job; readonly restarts: number }

export function planJob(input: JobPlanInput): JobPlan {
  const { instance, specHash, strategy, jobs, podsOf, knownForMs, now } = input
  const present = jobs.filter((job) => !isDeleted(job))
  if (specHash === undefined || isDeleted(instance))
    return present.length > 0
      ? { do: 'remove', jobs: present, reason: 'no broker Job is specified' }
      : { do: 'nothing' }

  const record = instance.status?.brokerJob
  const current = present.find((job) => specHashOf(job) === specHash)
  const withoutHash = newest(present.filter((job) => specHashOf(job) === undefined))
  if (current === undefined && withoutHash !== undefined) return { do: 'adopt', job: withoutHash }

  const outdated = present.filter((job) => job !== current)
  // With OnDelete the user deletes the outdated Job; until then no new Job is created.
  if (outdated.length > 0 && (strategy === 'RollingUpdate' || current !== undefined))
    return { do: 'remove', jobs: outdated, reason: 'the spec has changed' }

  if (current !== undefined) {
    if (!wasRefused(current, podsOf(current))) {
      const isRecorded = record?.specHash === specHash && record.name === current.metadata.name
      return isRecorded ? { do: 'nothing' } : { do: 'record', job: current }
    }
    const next = restart(
      { restarts: restartsOf(current), refused: true, ranMs: 0 },
      current.metadata.uid,
    )
    const restartAt = (current.endedAt ?? now) + next.waitMs
    if (record !== undefined) return { do: 'forget', job: current, restarts: next.restarts }
    return restartAt <= now
      ? { do: 'repeat', job: current, restarts: next.restarts }
      : { do: 'nothing', recheckAt: restartAt }
  }
  if (record?.specHash === specHash) return { do: 'nothing' }
  // Until an old Job has gone, its Pods use the device.
  const leaving = jobs.filter((job) => !isSpent(job, podsOf(job), now))
  if (leaving.length > 0)
    return { do: 'nothing', ...recheck(earliest(...leaving.map(heldAt)), now) }
  const { uid = '', restarts = 0 } = historyOf(instance).left[JOB] ?? {}
  if (restarts === 0) return { do: 'create', restarts }
  const { waitMs } = restart({ restarts: restarts - 1, refused: true, ranMs: 0 }, uid)
  const restartAt = now - knownForMs + waitMs
  return restartAt <= now ? { do: 'create', restarts } : { do: 'nothing', recheckAt: restartAt }
}

/** Whether a Job waits for its deletion without Pods: only something foreign holds it. */
function isSpent(job: Job, pods: readonly Pod[], now: number): boolean {
  return (heldAt(job) ?? Infinity) <= now && pods.every(isEnded)
}

/** Times of the past start no check: the end of a Pod does. */
function recheck(at: number | undefined, now: number): { readonly recheckAt?: number } {
  return at === undefined || at <= now ? {} : { recheckAt: at }
}

/**
 * Whether the Job failed and no Pod of it ever ran: refusals used up its limit. A Pod that is
 * deleted may have run: the Job ends those that still run when it fails.
 */
function wasRefused({ outcome, failedPods }: Job, pods: readonly Pod[]): boolean {
  return (
    outcome === 'failed' &&
    pods.length >= Math.max(failedPods, 1) &&
    pods.every((pod) => isRefused(pod) && !pod.hasRun)
  )
}

function newest(jobs: readonly Job[]): Job | undefined {
  return jobs.toSorted((a, b) =>
    a.metadata.creationTimestamp < b.metadata.creationTimestamp ? 1 : -1,
  )[0]
}
