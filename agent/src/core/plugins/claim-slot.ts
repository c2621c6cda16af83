import type { SlotName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Cluster, SlotClaim } from '../../ports/cluster.js'
import type { AgentObserver, PluginLevel } from '../../ports/observer.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { WorkloadDirectoryMaker } from './allocation.js'

export interface ClaimSlotOptions {
  readonly cluster: Pick<Cluster, 'claimSlot'>
  readonly claims: RequestClaims
  readonly observer: AgentObserver
  readonly directories: WorkloadDirectoryMaker | undefined
}

/**
 * Claims a slot for a container, and makes its directory in the meantime: the kubelet waits for both, and each waits for a disk.
 * @returns held where it is this node's by that usage now, also where it has been before
 */
export async function claimSlot(
  { cluster, claims, observer, directories }: ClaimSlotOptions,
  {
    level,
    instance,
    slot,
    usage,
  }: { level: PluginLevel; instance: ObjectKey; slot: SlotName; usage: string },
): Promise<SlotClaim & { readonly held: boolean }> {
  directories?.prepare(instance, slot)
  let held = false
  try {
    const result = await claims.claim(slot, () => cluster.claimSlot(instance, slot, usage))
    observer.claimed(level, result.outcome)
    held = result.outcome === 'claimed' || (result.outcome === 'taken' && result.by === usage)
    return { ...result, held }
  } finally {
    if (!held) directories?.discard(instance, slot)
  }
}
