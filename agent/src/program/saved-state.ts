import { instanceNameParts } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'
import type { Checkpoint, CheckpointContent } from '../discovery/checkpoint.js'
import type { Discovery } from '../discovery/discovery.js'
import type { HandlerRegistry } from '../handlers/handler-registry.js'
import { rememberedHandlers } from '../handlers/registration-server.js'
import { instanceOf } from '../slots/allocation-ledger.js'
import type { SlotBook } from '../slots/slot-book.js'

interface SavedStateOptions {
  readonly checkpoint: Checkpoint
  readonly discovery: Discovery
  readonly book: SlotBook
  readonly registry: HandlerRegistry
  /** Handlers that the agent starts itself. @default none */
  readonly isolated?: { readonly names: readonly string[] }
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** Writes what survives a restart of the agent to the checkpoint, after each change of it. */
export function savedState(options: SavedStateOptions) {
  const { checkpoint, discovery, book, registry, isolated, signal } = options
  const content = (): CheckpointContent => ({
    discovery: discovery.snapshot(),
    given: book.allocations.list().map(({ slot, resourceName, id }) => {
      const lost = book.isLost(instanceOf(slot))
      return { slot, resourceName, id, ...(lost && { lost }) }
    }),
    handlers: rememberedHandlers(registry, isolated?.names),
  })
  const saveSoon = (changed: keyof CheckpointContent) =>
    checkpoint.saveSoon(content, changed, options)
  book.allocations.onChange(() => saveSoon('given'), signal)
  book.onLoss(() => saveSoon('given'), signal)
  registry.onChange(() => saveSoon('handlers'), signal)
  discovery.onChange(() => saveSoon('discovery'), signal)
  return { save: () => checkpoint.save(content) }
}

/** Takes over the allocations. The first lists have the ids of lost devices too. */
export function recallSlots(book: SlotBook, { given }: CheckpointContent): void {
  for (const allocation of given) book.allocations.record(allocation)
  for (const { slot, lost } of given) {
    const instance = instanceOf(slot)
    const { configuration } = instanceNameParts(instance) ?? {}
    if (lost && configuration !== undefined) book.lose({ id: undefined, instance, configuration })
  }
}

/** The longest wait for the first offer, in milliseconds: a longer wait is no warm start. */
const OFFER_MS = 1000

/**
 * The first offer after a restart, of the devices in the checkpoint. Handlers are imported after
 * the offer, because an import blocks the thread. Without such devices there is no wait.
 */
export class RememberedOffer {
  /** Resolves after the offer, and after a second in any case: the kubelet may be away. */
  readonly made: Promise<void>
  readonly #open: Set<ObjectKey>
  readonly #done = new AbortController()

  /** @param configurations those that have devices in the checkpoint */
  constructor(configurations: Iterable<ObjectKey>, clock: Clock, signal: AbortSignal) {
    this.#open = new Set(configurations)
    const either = AbortSignal.any([this.#done.signal, signal])
    this.made = clock.sleep(OFFER_MS, either).catch(() => undefined)
    if (this.#open.size === 0) this.#done.abort()
  }

  /** Notes that the devices of a Configuration were offered, or that the offer failed. */
  tried(configuration: ObjectKey): void {
    if (this.#open.delete(configuration) && this.#open.size === 0) this.#done.abort()
  }
}
