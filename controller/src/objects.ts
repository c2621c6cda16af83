import { parseObjectMeta } from '@akrijs/api'
import type { NodeName, ObjectMeta } from '@akrijs/kube'
import * as z from 'zod'
import { appliedFields, type FieldSet } from './applied-fields.js'
import { ANNOTATIONS, LABELS } from './labels.js'

// What the controller reads of Kubernetes' own objects. Anybody may have made them, with any content: what is not as it
// should be counts as absent.

export interface KubernetesObject {
  readonly metadata: ObjectMeta<string>
}

/** A Service or a Deployment. */
export interface AppliedObject extends KubernetesObject {
  /** Of it what is as the controller has applied it. */
  readonly fields: FieldSet
}

export interface Pod extends KubernetesObject {
  /** Empty until it is scheduled. */
  readonly node: NodeName | ''
  /** Where it was made for; once it is scheduled, where it is. */
  readonly targetNode: NodeName | undefined
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown'
  readonly reason: string
  readonly ready: boolean
  /** When the kubelet took it, and when its last container ended, in milliseconds since the epoch. */
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
  /** Whether one of its containers has ever run. */
  readonly hasRun: boolean
}

export interface Job extends KubernetesObject {
  readonly outcome: 'complete' | 'failed' | undefined
  /** When that was, in milliseconds since the epoch. */
  readonly endedAt: number | undefined
}

export interface ClusterNode extends KubernetesObject {
  readonly ready: boolean
  /** Since when it is ready, or is not, in milliseconds since the epoch. */
  readonly readySince: number
  /** Whether new Pods may go there. */
  readonly schedulable: boolean
}

const text = z.string().catch('')
const time = z
  .string()
  .transform((value) => Date.parse(value))
  .pipe(z.number())
  .optional()
  .catch(undefined)
const conditions = z
  .array(z.object({ type: text, status: text, lastTransitionTime: time }))
  .optional()
  .catch(undefined)
const ended = z.object({ startedAt: time, finishedAt: time })
const state = z
  .object({ running: z.unknown().optional(), terminated: ended.optional().catch(undefined) })
  .optional()
  .catch(undefined)
const containers = z
  .array(z.object({ state, lastState: state }))
  .optional()
  .catch(undefined)

const podStatus = z
  .object({
    phase: z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Unknown']).catch('Unknown'),
    reason: text,
    startTime: time,
    conditions,
    containerStatuses: containers,
    initContainerStatuses: containers,
  })
  .catch({
    phase: 'Unknown',
    reason: '',
    startTime: undefined,
    conditions: undefined,
    containerStatuses: undefined,
    initContainerStatuses: undefined,
  })
const pod = z.object({
  spec: z.object({ nodeName: text }).catch({ nodeName: '' }),
  status: podStatus,
})

export function parsePod(object: unknown): Pod | undefined {
  const metadata = parseObjectMeta(object)
  const parsed = pod.safeParse(object)
  if (metadata === undefined || !parsed.success) return undefined
  const { spec, status } = parsed.data
  const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]
  const ends = all
    .flatMap(({ state: now, lastState }) => [now?.terminated, lastState?.terminated])
    .filter(isPresent)
  const finished = ends.flatMap(({ finishedAt }) => finishedAt ?? [])
  // Labels and annotations can be edited, where it is cannot.
  const target =
    spec.nodeName ||
    (metadata.annotations?.[ANNOTATIONS.targetNode] ?? metadata.labels?.[LABELS.targetNode])
  return {
    metadata,
    node: spec.nodeName as NodeName | '',
    targetNode: target as NodeName | undefined,
    phase: status.phase,
    reason: status.reason,
    ready:
      status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true,
    startedAt: status.startTime,
    endedAt: finished.length > 0 ? Math.max(...finished) : undefined,
    hasRun:
      all.some(({ state: now }) => now?.running !== undefined) ||
      ends.some(({ startedAt }) => startedAt !== undefined),
  }
}

const job = z.object({ status: z.object({ conditions }).catch({ conditions: undefined }) })

export function parseJob(object: unknown): Job | undefined {
  const metadata = parseObjectMeta(object)
  const parsed = job.safeParse(object)
  if (metadata === undefined || !parsed.success) return undefined
  const end = parsed.data.status.conditions?.find(
    ({ type, status }) => status === 'True' && (type === 'Complete' || type === 'Failed'),
  )
  if (end === undefined) return { metadata, outcome: undefined, endedAt: undefined }
  return {
    metadata,
    outcome: end.type === 'Complete' ? 'complete' : 'failed',
    endedAt: end.lastTransitionTime,
  }
}

/** Of what it says nothing is read but who says so. */
export function parseAppliedObject(object: unknown): AppliedObject | undefined {
  const metadata = parseObjectMeta(object)
  return metadata && { metadata, fields: appliedFields(object) }
}

const node = z.object({
  spec: z
    .object({ unschedulable: z.boolean().optional().catch(undefined) })
    .catch({ unschedulable: undefined }),
  status: z.object({ conditions }).catch({ conditions: undefined }),
})

export function parseNode(object: unknown): ClusterNode | undefined {
  const metadata = parseObjectMeta(object)
  const parsed = node.safeParse(object)
  if (metadata === undefined || !parsed.success) return undefined
  const ready = parsed.data.status.conditions?.find(({ type }) => type === 'Ready')
  return {
    // Labels and annotations of nodes are many, and only the labels are looked at.
    metadata: { ...metadata, annotations: {} },
    ready: ready?.status === 'True',
    readySince: ready?.lastTransitionTime ?? Date.parse(metadata.creationTimestamp),
    schedulable: parsed.data.spec.unschedulable !== true,
  }
}

function isPresent<T>(value: T | undefined): value is T {
  return value !== undefined
}
