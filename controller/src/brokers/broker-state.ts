import { createHash } from 'node:crypto'
import { objectMessage } from '@akrijs/runtime'
import type { Job, KubernetesObject, Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS } from '../labels.js'
import type { BrokerProblem } from './broker-problem.js'

/**
 * The reasons of a kubelet that does not admit a Pod: a device plugin, or the node, has no room.
 */
const REFUSED = /^(UnexpectedAdmissionError|OutOf.*)$/

/**
 * How long a new broker is ready before it counts as working, in milliseconds: a broker that
 * crashes again and again is ready for moments.
 */
const STEADY_MS = 5000

/** When a Pod that is ready counts as working, by `monotonicMs`; undefined if it is not ready. */
export function steadyAt({ ready, readySince }: Pod): number | undefined {
  return ready ? readySince + STEADY_MS : undefined
}

export function works(pod: Pod, now: number): boolean {
  return (steadyAt(pod) ?? Infinity) <= now
}

export function isEnded({ phase }: Pod): boolean {
  return phase === 'Succeeded' || phase === 'Failed'
}

/** Whether the kubelet did not admit the Pod. */
export function isRefused({ phase, reason }: Pod): boolean {
  return phase === 'Failed' && REFUSED.test(reason)
}

/** How long a kubelet may take to start the first container of a Pod, in milliseconds. */
const FIRST_CONTAINER_MS = 30_000

/**
 * When a Pod whose first container has not started is slow, by `monotonicMs`; undefined for any
 * other Pod. No status says that the kubelet still pulls an image.
 */
export function slowAt({ phase, startedAt, hasRun, problem }: Pod): number | undefined {
  const isStarting = phase === 'Pending' && !hasRun && problem === undefined
  return isStarting && startedAt !== undefined ? startedAt + FIRST_CONTAINER_MS : undefined
}

/** The problem of a Pod, also one that only its slow start shows. */
export function problemAt(pod: Pod, now: number): BrokerProblem | undefined {
  if ((slowAt(pod) ?? Infinity) > now) return pod.problem
  const { namespace, name } = pod.metadata
  const message =
    `Pod ${name}: no container has started for 30 s; its image may still be pulled, or a volume ` +
    `is missing: kubectl -n ${namespace} describe pod ${name}`
  return { reason: 'ContainerNotCreated', message: objectMessage(message) }
}

// Brokers whose deletion does not end. A finalizer can hold a broker for ever. So can an object of
// any namespace that names a Job as its owner: the garbage collector waits for that object.

/** How long the deletion of a broker may take before it counts as held, in milliseconds. */
const HELD_MS = 5 * 60_000

/**
 * When the deletion of a broker counts as held, by `monotonicMs`; undefined for a broker that is
 * not being deleted, or that no finalizer holds.
 */
export function heldAt({ metadata, deletedAt }: Pod | Job): number | undefined {
  const { finalizers = [] } = metadata
  return deletedAt === undefined || finalizers.length === 0 ? undefined : deletedAt + HELD_MS
}

// How long an ended broker waits before it is created again. An annotation counts the restarts, so
// that another replica of the controller continues the back-off.

/** The wait before the second restart, and the longest wait, in milliseconds. */
const INITIAL_MS = 2000
const CEILING_MS = 5 * 60_000
/** A refused broker waits already before the first restart: the slot takes a moment to be free. */
const REFUSED_MS = 2000
/** A broker that ran for so long was no failure, in milliseconds. */
export const STABLE_MS = 10 * 60_000

export function restartsOf({ metadata }: KubernetesObject): number {
  const count = Number(metadata.annotations?.[ANNOTATIONS.restarts] ?? 0)
  return Number.isSafeInteger(count) && count > 0 ? Math.min(count, 1000) : 0
}

/** The last life of a broker. */
interface BrokerLife {
  /** Restarts in a row before this life. */
  readonly restarts: number
  /** Whether the kubelet did not admit the broker. */
  readonly refused: boolean
  /** How long the broker ran, in milliseconds. */
  readonly ranMs: number
}

/** The number of restarts in a row with the next one, and the wait before it, in milliseconds. */
export function restart(
  { restarts, refused, ranMs }: BrokerLife,
  uid: string,
): { readonly restarts: number; readonly waitMs: number } {
  const before = ranMs >= STABLE_MS ? 0 : restarts
  const firstMs = refused ? REFUSED_MS : 0
  const wait = before === 0 ? firstMs : Math.min(CEILING_MS, INITIAL_MS * 2 ** (before - 1))
  // Brokers that were refused together must not return together. The uid, unlike a random number,
  // gives the same wait in each plan.
  return { restarts: before + 1, waitMs: wait * (1 + fractionOf(uid) / 2) }
}

/** In [0, 1), the same for the same text. */
function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE() / 2 ** 32
}

/** The earliest of the times that are defined. */
export function earliest(...times: readonly (number | undefined)[]): number | undefined {
  const defined = times.filter((time) => time !== undefined)
  return defined.length > 0 ? Math.min(...defined) : undefined
}
