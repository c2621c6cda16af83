import { isRecord } from '@akrijs/runtime'
import { ApiUnreachableError } from './errors.js'

// A Lease (coordination.k8s.io), and what a candidate for it does next. Pure.

export interface Lease {
  /** The metadata as the server has them: labels and owners of the Lease are kept. */
  readonly metadata: object
  /** The identity of the leader; empty if the Lease was given back. */
  readonly holder: string
  readonly durationMs: number
  readonly acquireTime: string | undefined
  /** Changes with each renewal. */
  readonly renewal: string
  readonly transitions: number
}

/** The newest renewal by another candidate, and when it was seen first, by the monotonic clock. */
export interface SeenRenewal {
  readonly renewal: string
  readonly seenAt: number
  /** The duration in the Lease, in milliseconds. */
  readonly durationMs: number
}

type LeaseStep =
  /** Another candidate holds the Lease. */
  | { readonly do: 'wait'; readonly seen: SeenRenewal }
  /** The Lease is free, has run out, or is ours to renew. */
  | { readonly do: 'write' }

/**
 * What a candidate does with the Lease that it read. The times in the Lease are not used: clocks
 * of machines differ.
 * @param seen the result of the step before
 * @param now by the monotonic clock
 */
export function leaseStep(
  lease: Lease | undefined,
  identity: string,
  seen: SeenRenewal | undefined,
  now: number,
): LeaseStep {
  if (lease === undefined || lease.holder === '' || lease.holder === identity)
    return { do: 'write' }
  const { renewal, durationMs } = lease
  if (seen?.renewal !== renewal) return { do: 'wait', seen: { renewal, seenAt: now, durationMs } }
  return now - seen.seenAt >= durationMs ? { do: 'write' } : { do: 'wait', seen }
}

/**
 * The Lease as an object of the server.
 * @param lease the Lease that is replaced. Its version is kept: a write by another candidate in
 * between makes ours fail
 * @param holder the new leader; empty to give the Lease back
 */
export function leaseObject(
  lease: Lease | undefined,
  holder: string,
  {
    namespace,
    name,
    durationMs,
    now,
  }: {
    readonly namespace: string
    readonly name: string
    readonly durationMs: number
    readonly now: Date
  },
): object {
  const time = `${now.toISOString().slice(0, -1)}000Z`
  const isTaken = holder !== '' && lease?.holder !== holder
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: lease?.metadata ?? { name, namespace },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: Math.max(1, Math.ceil(durationMs / 1000)),
      renewTime: time,
      acquireTime: isTaken ? time : lease?.acquireTime,
      leaseTransitions: (lease?.transitions ?? 0) + (isTaken && lease !== undefined ? 1 : 0),
    },
  }
}

/** @throws ApiUnreachableError if the object is no Lease: another program answered */
export function parseLease(object: unknown): Lease | undefined {
  if (object === undefined) return undefined
  const { metadata, spec = {} } = isRecord(object) ? object : {}
  if (!isRecord(metadata) || !isRecord(spec) || typeof metadata.resourceVersion !== 'string')
    throw new ApiUnreachableError('the answer is no Lease')
  const { holderIdentity, leaseDurationSeconds, renewTime, acquireTime, leaseTransitions } = spec
  return {
    metadata,
    holder: typeof holderIdentity === 'string' ? holderIdentity : '',
    durationMs: (typeof leaseDurationSeconds === 'number' ? leaseDurationSeconds : 1) * 1000,
    acquireTime: typeof acquireTime === 'string' ? acquireTime : undefined,
    renewal: `${holderIdentity} ${renewTime} ${metadata.resourceVersion}`,
    transitions: typeof leaseTransitions === 'number' ? leaseTransitions : 0,
  }
}
