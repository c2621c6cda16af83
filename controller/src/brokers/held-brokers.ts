import { keyOf, type ObjectKey, type RecheckAfter } from '@akrijs/kube'
import { BrokerHeldError } from '../errors.js'
import type { Job, Pod } from '../kubernetes-objects.js'
import type { Term } from '../term.js'

// Brokers whose deletion does not end. A finalizer can hold a broker for ever. So can an object of
// any namespace that names a Job as its owner: the garbage collector waits for that object.

/** How long the deletion of a broker may take before it counts as held, in milliseconds. */
const HELD_MS = 5 * 60_000

/** The most brokers that an error names. */
const MAX_NAMED = 5

/**
 * When the deletion of a broker counts as held, by `monotonicMs`; undefined for a broker that is
 * not being deleted, or that no finalizer holds.
 */
export function heldAt({ metadata, deletedAt }: Pod | Job): number | undefined {
  const { finalizers = [] } = metadata
  return deletedAt === undefined || finalizers.length === 0 ? undefined : deletedAt + HELD_MS
}

/** @throws BrokerHeldError if the deletion of a broker of the Instance is held */
export async function reportHeldBrokers(
  key: ObjectKey,
  { state, clock }: Term,
  _signal: AbortSignal,
  recheckAfter: RecheckAfter,
): Promise<void> {
  const instance = state.instances.cache.get(key)
  if (instance === undefined) return
  const now = clock.monotonicMs()
  const texts: string[] = []
  for (const kind of ['Pod', 'Job'] as const)
    for (const broker of state[kind === 'Pod' ? 'pods' : 'jobs'].ownedBy('Instance', instance)) {
      const leftMs = (heldAt(broker) ?? Infinity) - now
      if (leftMs <= 0) texts.push(describe(kind, broker))
      else recheckAfter(leftMs)
    }
  if (texts.length > 0) throw new BrokerHeldError(texts.slice(0, MAX_NAMED).join('; '))
}

function describe(kind: string, { metadata }: Pod | Job): string {
  const { deletionTimestamp, finalizers = [] } = metadata
  return (
    `${kind} ${keyOf({ metadata })} has been waiting for its deletion since ` +
    `${deletionTimestamp}: find out what its finalizers ${finalizers.join(', ')} wait for, or ` +
    'remove them'
  )
}
