import { isDeepStrictEqual } from 'node:util'
import { parseObjectMeta } from '@akrijs/api'
import type { NodeName, ObjectMeta } from '@akrijs/kube'
import { isRecord, objectMessage } from '@akrijs/runtime'
import * as z from 'zod'
import { type BrokerProblem, podProblem } from './brokers/broker-problem.js'
import { ANNOTATIONS, LABELS, TEMPLATE_HASH } from './labels.js'
import { appliedFields } from './managed-fields.js'

// The parts of Kubernetes' own objects that the controller reads. Any user may have created an
// object with any content: a field of a wrong type counts as absent.
//
// The times in an object are by the clocks of the API server, of a controller or of a node. None is
// compared with the clock of this program. A parser says instead when this program first saw a
// fact, by `monotonicMs`, and takes that time over from the cached object.

export interface KubernetesObject {
  readonly metadata: ObjectMeta<string>
}

export function isDeleted({ metadata }: KubernetesObject): boolean {
  return metadata.deletionTimestamp !== undefined
}

/** A Service, or the part of a Deployment that is compared with its template. */
export interface AppliedObject extends KubernetesObject {
  /** The fields that have the values that the controller applied: a FieldSet as JSON. */
  readonly applied: string
}

export interface Pod extends KubernetesObject {
  /** Empty until the Pod is scheduled. */
  readonly node: NodeName | ''
  /** The node that the Pod was created for; once it is scheduled, the node that it is on. */
  readonly targetNode: NodeName | undefined
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown'
  readonly reason: string
  readonly ready: boolean
  /** The first sight of the Pod. */
  readonly seenAt: number
  /** The first sight of its deletion. */
  readonly deletedAt: number | undefined
  /** The first sight of the present value of `ready`. */
  readonly readySince: number
  /** The first sight of its admission by the kubelet. */
  readonly startedAt: number | undefined
  /** The first sight of its end. */
  readonly endedAt: number | undefined
  /** From its admission to the end of its last container, both by the clock of its node. */
  readonly ranMs: number
  /** Whether any of its containers has ever run. */
  readonly hasRun: boolean
  /** Why it does not work, as far as its status says so. */
  readonly problem: BrokerProblem | undefined
  /** How often the kubelet has restarted its containers. */
  readonly containerRestarts: number
}

export interface Job extends KubernetesObject {
  readonly outcome: 'complete' | 'failed' | undefined
  /** The first sight of its deletion. */
  readonly deletedAt: number | undefined
  /** The first sight of its end. */
  readonly endedAt: number | undefined
  /** Why it failed. */
  readonly failure: string
  /** How many of its Pods have failed, also Pods that are deleted. */
  readonly failedPods: number
  /** Whether the Job should have Pods now, and has none by its own count. */
  readonly lacksPods: boolean
}

export interface Deployment extends AppliedObject {
  /** Whether its status is about its present spec. */
  readonly isObserved: boolean
  /** How many Pods it should have. */
  readonly desired: number
  /** How many of its Pods have its present template; 0 until the status is about that template. */
  readonly updated: number
  readonly ready: number
  /** The API server's refusal of a Pod, in its sentence. */
  readonly refusal: string | undefined
}

export interface ClusterNode extends KubernetesObject {
  readonly ready: boolean
  /** The first sight of the present value of `ready`. */
  readonly readySince: number
  /** Whether the scheduler may place new Pods there. */
  readonly schedulable: boolean
  /** Taints that keep Pods away which do not tolerate them. */
  readonly taints: readonly Taint[]
}

export interface Taint {
  readonly key: string
  readonly value: string
  readonly effect: 'NoSchedule' | 'NoExecute'
}

/** The labels and annotations that the controller reads of Pods and Jobs. */
const READ_LABELS: ReadonlySet<string> = new Set([...Object.values(LABELS), TEMPLATE_HASH])
/** The most finalizers that are kept: a message names them. */
const MAX_FINALIZERS = 5
const READ_ANNOTATIONS: ReadonlySet<string> = new Set(Object.values(ANNOTATIONS))

/**
 * The part of a Pod or a Job that the controller reads. Any user may create objects of 1.5 MB each
 * that its watches select.
 */
export function reducedWorkload(object: unknown): Readonly<Record<string, unknown>> {
  const { metadata, spec, status } = recordOf(object)
  const { managedFields: _fields, labels, annotations, ...others } = recordOf(metadata)
  const { ownerReferences, finalizers } = others
  const { nodeName, suspend, replicas } = recordOf(spec)
  return {
    metadata: {
      ...others,
      labels: picked(labels, READ_LABELS),
      annotations: picked(annotations, READ_ANNOTATIONS),
      ownerReferences: Array.isArray(ownerReferences)
        ? ownerReferences.filter((reference) => recordOf(reference).controller === true)
        : ownerReferences,
      finalizers: Array.isArray(finalizers) ? finalizers.slice(0, MAX_FINALIZERS) : finalizers,
    },
    spec: { nodeName, suspend, replicas },
    status,
  }
}

/** The same of a Service or a Deployment. */
export function reducedApplied(object: unknown): Readonly<Record<string, unknown>> {
  return { ...reducedWorkload(object), applied: appliedIn(object) }
}

/** As text: objects for thousands of fields take several times as much memory. */
function appliedIn(object: unknown): string {
  const { applied } = recordOf(object)
  return typeof applied === 'string' ? applied : JSON.stringify(appliedFields(object))
}

function picked(value: unknown, names: ReadonlySet<string>): unknown {
  return Object.fromEntries(Object.entries(recordOf(value)).filter(([name]) => names.has(name)))
}

/** A value as an object, which is empty for any other value. */
export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {}
}

/** An object any field of which can be absent. In place of any other value: no field. */
export function lenient<Shape extends z.ZodRawShape>(shape: Shape) {
  const object = z.object(shape)
  return object.catch(() => object.parse({}))
}

const text = z.string().catch('')
/** Any user may write any text in place of the name of a node. */
const nodeName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9][-.a-z0-9]*$/)
  .optional()
  .catch(undefined)
const count = z.number().int().min(0).optional().catch(undefined)
const time = z
  .string()
  .transform((value) => Date.parse(value))
  .pipe(z.number())
  .optional()
  .catch(undefined)
const conditions = z
  .array(z.object({ type: text, status: text, reason: text, message: text }))
  .optional()
  .catch(undefined)
const ended = z.object({ startedAt: time, finishedAt: time })
const waiting = z.object({ reason: text, message: text })
const state = z
  .object({
    running: z.unknown().optional(),
    waiting: waiting.optional().catch(undefined),
    terminated: ended.optional().catch(undefined),
  })
  .optional()
  .catch(undefined)
const containers = z
  .array(z.object({ state, lastState: state, restartCount: count }))
  .optional()
  .catch(undefined)

const pod = lenient({
  spec: lenient({ nodeName: text }),
  status: lenient({
    phase: z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Unknown']).catch('Unknown'),
    reason: text,
    message: text,
    startTime: time,
    conditions,
    containerStatuses: containers,
    initContainerStatuses: containers,
  }),
})

/** The cached object, if it is an earlier version of the same object. */
function earlier<T extends KubernetesObject>(
  cached: T | undefined,
  { uid }: ObjectMeta<string>,
): T | undefined {
  return cached?.metadata.uid === uid ? cached : undefined
}

/** @param now by `monotonicMs` */
export function parsePod(object: unknown, cached: Pod | undefined, now: number): Pod | undefined {
  const read = reducedWorkload(object)
  const metadata = parseObjectMeta(read)
  if (metadata === undefined) return undefined
  const before = earlier(cached, metadata)
  const { spec, status } = pod.parse(read)
  const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]
  const ends = all
    .flatMap(({ state: now, lastState }) => [now?.terminated, lastState?.terminated])
    .filter((end) => end !== undefined)
  const finished = ends.flatMap(({ finishedAt }) => finishedAt ?? [])
  const { startTime = Infinity, phase } = status
  const hasEnded = phase === 'Succeeded' || phase === 'Failed'
  const ready = status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
  // Users can edit labels and annotations, but not the node of a scheduled Pod.
  const target =
    spec.nodeName ||
    nodeName.parse(metadata.annotations?.[ANNOTATIONS.targetNode]) ||
    metadata.labels?.[LABELS.targetNode]
  return {
    metadata,
    node: spec.nodeName as NodeName | '',
    targetNode: target as NodeName | undefined,
    phase,
    reason: status.reason,
    ready,
    seenAt: before?.seenAt ?? now,
    deletedAt: isDeleted({ metadata }) ? (before?.deletedAt ?? now) : undefined,
    readySince: before?.ready === ready ? before.readySince : now,
    startedAt: status.startTime === undefined ? undefined : (before?.startedAt ?? now),
    endedAt: hasEnded ? (before?.endedAt ?? now) : undefined,
    ranMs: Math.max(0, ...finished.map((time) => time - startTime)),
    hasRun:
      all.some(({ state: now }) => now?.running !== undefined) ||
      ends.some(({ startedAt }) => startedAt !== undefined),
    problem: podProblem(metadata.name, {
      ...status,
      waiting: all.flatMap(({ state: now }) => now?.waiting ?? []),
    }),
    containerRestarts: all.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0),
  }
}

const job = lenient({
  spec: lenient({ suspend: z.boolean().optional().catch(undefined) }),
  status: lenient({ conditions, active: count, failed: count }),
})

/** @param now by `monotonicMs` */
export function parseJob(object: unknown, cached: Job | undefined, now: number): Job | undefined {
  const read = reducedWorkload(object)
  const metadata = parseObjectMeta(read)
  if (metadata === undefined) return undefined
  const before = earlier(cached, metadata)
  const { spec, status } = job.parse(read)
  const end = status.conditions?.find(
    ({ type, status: is }) => is === 'True' && (type === 'Complete' || type === 'Failed'),
  )
  const deletedAt = isDeleted({ metadata }) ? (before?.deletedAt ?? now) : undefined
  const common = { metadata, deletedAt, failedPods: status.failed ?? 0 }
  if (end === undefined) {
    const lacksPods = spec.suspend !== true && (status.active ?? 0) === 0
    return { ...common, outcome: undefined, endedAt: undefined, failure: '', lacksPods }
  }
  const outcome = end.type === 'Complete' ? 'complete' : 'failed'
  const failure = outcome === 'failed' ? objectMessage(end.message) : ''
  return { ...common, outcome, endedAt: before?.endedAt ?? now, failure, lacksPods: false }
}

export function parseAppliedObject(object: unknown): AppliedObject | undefined {
  const { applied, ...read } = reducedApplied(object)
  const metadata = parseObjectMeta(read)
  return metadata && { metadata, applied: String(applied) }
}

const deployment = lenient({
  spec: lenient({ replicas: count }),
  status: lenient({
    conditions,
    observedGeneration: count,
    updatedReplicas: count,
    readyReplicas: count,
  }),
})

export function parseDeployment(object: unknown): Deployment | undefined {
  const applied = parseAppliedObject(object)
  if (applied === undefined) return undefined
  const { spec, status } = deployment.parse(object)
  const isObserved = (status.observedGeneration ?? 0) >= applied.metadata.generation
  // A Deployment takes this condition from its ReplicaSets, until they have created their Pods.
  const failure = status.conditions?.find(
    ({ type, status: is, reason }) =>
      type === 'ReplicaFailure' && is === 'True' && reason === 'FailedCreate',
  )
  return {
    ...applied,
    isObserved,
    desired: spec.replicas ?? 1,
    updated: isObserved ? (status.updatedReplicas ?? 0) : 0,
    ready: status.readyReplicas ?? 0,
    refusal: failure && objectMessage(failure.message),
  }
}

const taint = z.object({
  key: text,
  value: text,
  effect: z.enum(['NoSchedule', 'NoExecute']),
})
const node = lenient({
  spec: lenient({
    unschedulable: z.boolean().optional().catch(undefined),
    taints: z.array(z.unknown()).catch([]),
  }),
  status: lenient({ conditions }),
})

/**
 * A kubelet updates its Node every few seconds, mostly without a change that decides whether Pods
 * can run there: then the cached object stays.
 * @param now by `monotonicMs`
 */
export function parseNode(
  object: unknown,
  cached: ClusterNode | undefined,
  now: number,
): ClusterNode | undefined {
  const metadata = parseObjectMeta(object)
  if (metadata === undefined) return undefined
  const before = earlier(cached, metadata)
  const { spec, status } = node.parse(object)
  const ready = status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
  const found = {
    // Nodes have many annotations, and the controller reads none of them.
    metadata: { ...metadata, annotations: {} },
    ready,
    readySince: before?.ready === ready ? before.readySince : now,
    schedulable: spec.unschedulable !== true,
    taints: (spec.taints ?? []).flatMap((each) => taint.safeParse(each).data ?? []),
  }
  const isSame = before !== undefined && isDeepStrictEqual(stateOf(before), stateOf(found))
  return isSame ? before : found
}

function stateOf({ metadata, ready, schedulable, taints }: ClusterNode): unknown {
  return [ready, schedulable, taints, metadata.labels, metadata.deletionTimestamp]
}
