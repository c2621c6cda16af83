import type { Instance, UpdateStrategy } from '@akrijs/api'
import { isDeleted, type Job, type Pod } from '../kubernetes-objects.js'
import { specHashOf } from '../labels.js'
import { type BrokerHistory, historyOf, JOB, withLegacy } from './broker-history.js'
import { earliest, heldAt, isEnded, isRefused, restart, restartsOf } from './broker-state.js'

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

export interface JobPlan {
  /** What the Instance records before anything else is done. */
  readonly history: BrokerHistory
  /** The new record of the creation of a Job; null to remove it, undefined if it stays. */
  readonly record?: BrokerJobRecord | null
  /** A Job of a version without spec hashes: it counts as made from the present spec. */
  readonly adopt?: Job
  readonly remove?: readonly Job[]
  /** Why Jobs are removed. */
  readonly reason?: string
  readonly create?: { readonly restarts: number }
  /** When time alone changes the plan. */
  readonly recheckAt?: number
}

type BrokerJobRecord = NonNullable<NonNullable<Instance['status']>['brokerJob']>

export function planJob(input: JobPlanInput): JobPlan {
  const { instance, specHash, strategy, jobs, podsOf, knownForMs, now } = input
  const history = historyOf(instance)
  const present = jobs.filter((job) => !isDeleted(job))
  if (specHash === undefined || isDeleted(instance))
    return { history, remove: present, reason: 'no broker Job is specified' }

  const record = instance.status?.brokerJob
  const current = present.find((job) => specHashOf(job) === specHash)
  const withoutHash = newest(present.filter((job) => specHashOf(job) === undefined))
  if (current === undefined && withoutHash !== undefined) return { history, adopt: withoutHash }

  const outdated = present.filter((job) => job !== current)
  // With OnDelete the user deletes the outdated Job; until then no new Job is created.
  if (outdated.length > 0 && (strategy === 'RollingUpdate' || current !== undefined))
    return { history, remove: outdated, reason: 'the spec has changed' }

  if (current !== undefined) {
    const { name, uid } = current.metadata
    if (!wasRefused(current, podsOf(current))) {
      const isRecorded = record?.specHash === specHash && record.name === name
      const settled = withLegacy(history, JOB, {})
      return isRecorded ? { history } : { history: settled, record: { name, specHash } }
    }
    const life = { restarts: restartsOf(current), refused: true, ranMs: 0 }
    const { restarts, waitMs } = restart(life, uid)
    // If a person deletes the Job before its repetition, it is created again nevertheless.
    if (record !== undefined)
      return { history: withLegacy(history, JOB, { uid, restarts }), record: null }
    const restartAt = (current.endedAt ?? now) + waitMs
    return restartAt <= now
      ? { history, remove: [current], reason: 'no kubelet admitted its Pods' }
      : { history, recheckAt: restartAt }
  }
  if (record?.specHash === specHash) return { history }
  // Until an old Job has gone, its Pods use the device.
  const leaving = jobs.filter((job) => !isSpent(job, podsOf(job), now))
  if (leaving.length > 0) {
    const at = earliest(...leaving.map(heldAt))
    // Times of the past start no check: the end of a Pod does.
    return { history, ...(at !== undefined && at > now && { recheckAt: at }) }
  }
  const { uid = '', restarts = 0 } = history.left[JOB] ?? {}
  if (restarts === 0) return { history, create: { restarts } }
  const { waitMs } = restart({ restarts: restarts - 1, refused: true, ranMs: 0 }, uid)
  const restartAt = now - knownForMs + waitMs
  return restartAt <= now ? { history, create: { restarts } } : { history, recheckAt: restartAt }
}

/** Whether a Job waits for its deletion without Pods: only something foreign holds it. */
function isSpent(job: Job, pods: readonly Pod[], now: number): boolean {
  return (heldAt(job) ?? Infinity) <= now && pods.every(isEnded)
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
