import type { SlotName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { SlotClaim } from '../../ports/cluster.js'
import type { PluginLevel } from '../../ports/observer.js'
import { inParallel } from '../instances/parallel-work.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { PluginOptions } from './plugin-behaviour.js'

interface ClaimSlotsOptions extends Pick<PluginOptions, 'cluster' | 'observer' | 'directories'> {
  readonly claims: RequestClaims
  readonly level: PluginLevel
}

interface SlotToClaim {
  readonly instance: ObjectKey
  readonly slot: SlotName
  readonly usage: string
  /** The id of the device that the container gets. */
  readonly device: string
}

/** `held`: this node holds the slot with that usage now, by this claim or by an earlier one. */
export type ClaimSlot = (target: SlotToClaim) => Promise<SlotClaim & { readonly held: boolean }>

/**
 * Runs `work`, which claims the slots of one request of the kubelet. If `work` rejects, its claims
 * are released.
 */
export async function claimAllOrNone<T>(
  options: ClaimSlotsOptions,
  work: (claim: ClaimSlot) => Promise<T>,
): Promise<T> {
  const claimed: SlotToClaim[] = []
  try {
    return await work(async (target) => {
      const result = await claimSlot(options, target)
      if (result.outcome === 'claimed') claimed.push(target)
      return result
    })
  } catch (error) {
    // After a failed release, the slot reconciler releases the slot, because no container uses it.
    // At once: the kubelet admits no Pod meanwhile, and a cluster that is away takes its time.
    await inParallel(claimed, async ({ instance, slot, usage }) => {
      await options.cluster.releaseSlot(instance, slot, usage).catch(() => undefined)
      options.directories?.discard(instance, slot)
    })
    throw error
  }
}

/**
 * Claims a slot, and prepares its directory at the same time: the kubelet waits for both, and each
 * waits for a disk.
 */
async function claimSlot(
  { cluster, claims, observer, directories, level }: ClaimSlotsOptions,
  { instance, slot, usage, device }: SlotToClaim,
): Promise<SlotClaim & { readonly held: boolean }> {
  directories?.prepare(instance, slot)
  let held = false
  try {
    const result = await claims.claim(slot, () => cluster.claimSlot(instance, slot, usage, device))
    observer.claimed(level, result.outcome)
    held = result.outcome === 'claimed' || (result.outcome === 'taken' && result.by === usage)
    return { ...result, held }
  } finally {
    if (!held) directories?.discard(instance, slot)
  }
}
