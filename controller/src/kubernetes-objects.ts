import { parseObjectMeta } from '@akrijs/api'
import type { NodeName, ObjectMeta } from '@akrijs/kube'
import * as z from 'zod'
import { ANNOTATIONS, LABELS } from './labels.js'
import { appliedFields, type FieldSet } from './managed-fields.js'

// The parts of Kubernetes' own objects that the controller reads. Any user may have created an
// object with any content: a field of a wrong type counts as absent.

export interface KubernetesObject {
  readonly metadata: ObjectMeta<string>
}

export function isDeleted({ metadata }: KubernetesObject): boolean {
  return metadata.deletionTimestamp !== undefined
}

/** A Service or a Deployment. */
export interface AppliedObject extends KubernetesObject {
  /** The fields that have the values that the controller applied. */
  readonly fields: FieldSet
}

export interface Pod extends KubernetesObject {
  /** Empty until the Pod is scheduled. */
  readonly node: NodeName | ''
  /** The node that the Pod was created for; once it is scheduled, the node that it is on. */
  readonly targetNode: NodeName | undefined
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown'
  readonly reason: string
  readonly ready: boolean
  /** When the kubelet admitted the Pod, in milliseconds since the epoch. */
  readonly startedAt: number | undefined
  /** When its last container ended, in milliseconds since the epoch. */
  readonly endedAt: number | undefined
  /** Whether any of its containers has ever run. */
  readonly hasRun: boolean
}

export interface Job extends KubernetesObject {
  readonly outcome: 'complete' | 'failed' | undefined
  /** When the Job ended, in milliseconds since the epoch. */
  readonly endedAt: number | undefined
}

export interface ClusterNode extends KubernetesObject {
  readonly ready: boolean
  /** The last change of `ready`, in milliseconds since the epoch. */
  readonly readySince: number
  /** Whether the scheduler may place new Pods there. */
  readonly schedulable: boolean
}

/** An object any field of which can be absent. In place of any other value: no field. */
export function lenient<Shape extends z.ZodRawShape>(shape: Shape) {
  const object = z.object(shape)
  return object.catch(() => object.parse({}))
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

const pod = lenient({
  spec: lenient({ nodeName: text }),
  status: lenient({
    phase: z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Unknown']).catch('Unknown'),
    reason: text,
    startTime: time,
    conditions,
    containerStatuses: containers,
    initContainerStatuses: containers,
  }),
})

export function parsePod(object: unknown): Pod | undefined {
  const metadata = parseObjectMeta(object)
  if (metadata === undefined) return undefined
  const { spec, status } = pod.parse(object)
  const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]
  const ends = all
    .flatMap(({ state: now, lastState }) => [now?.terminated, lastState?.terminated])
    .filter((end) => end !== undefined)
  const finished = ends.flatMap(({ finishedAt }) => finishedAt ?? [])
  // Users can edit labels and annotations, but not the node of a scheduled Pod.
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

const job = lenient({ status: lenient({ conditions }) })

export function parseJob(object: unknown): Job | undefined {
  const metadata = parseObjectMeta(object)
  if (metadata === undefined) return undefined
  const { status } = job.parse(object)
  const end = status.conditions?.find(
    ({ type, status: is }) => is === 'True' && (type === 'Complete' || type === 'Failed'),
  )
  if (end === undefined) return { metadata, outcome: undefined, endedAt: undefined }
  const outcome = end.type === 'Complete' ? 'complete' : 'failed'
  return { metadata, outcome, endedAt: end.lastTransitionTime }
}

export function parseAppliedObject(object: unknown): AppliedObject | undefined {
  const metadata = parseObjectMeta(object)
  return metadata && { metadata, fields: appliedFields(object) }
}

const node = lenient({
  spec: lenient({ unschedulable: z.boolean().optional().catch(undefined) }),
  status: lenient({ conditions }),
})

export function parseNode(object: unknown): ClusterNode | undefined {
  const metadata = parseObjectMeta(object)
  if (metadata === undefined) return undefined
  const { spec, status } = node.parse(object)
  const ready = status.conditions?.find(({ type }) => type === 'Ready')
  return {
    // Nodes have many annotations, and the controller reads none of them.
    metadata: { ...metadata, annotations: {} },
    ready: ready?.status === 'True',
    readySince: ready?.lastTransitionTime ?? Date.parse(metadata.creationTimestamp),
    schedulable: spec.unschedulable !== true,
  }
}
