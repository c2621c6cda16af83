import { type Configuration, instanceNameParts } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
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
export class SavedState {
  readonly #options: SavedStateOptions

  constructor(options: SavedStateOptions) {
    this.#options = options
    const { discovery, book, registry, signal } = options
    book.allocations.onChange(() => this.saveSoon('given'), signal)
    registry.onChange(() => this.saveSoon('handlers'), signal)
    discovery.onChange(() => this.saveSoon('discovery'), signal)
  }

  saveSoon(changed: keyof CheckpointContent): void {
    this.#options.checkpoint.saveSoon(() => this.#content(), changed, this.#options)
  }

  save(): Promise<void> {
    return this.#options.checkpoint.save(() => this.#content())
  }

  #content(): CheckpointContent {
    const { discovery, book, registry, isolated } = this.#options
    return {
      discovery: discovery.snapshot(),
      given: book.allocations.list().map((each) => {
        return book.isLost(instanceOf(each.slot)) ? { ...each, lost: true } : each
      }),
      handlers: rememberedHandlers(registry, isolated?.names),
    }
  }
}

/** Takes over the allocations. The first lists have the ids of lost devices too. */
export function recallSlots(book: SlotBook, { given }: CheckpointContent): void {
  for (const allocation of given) book.allocations.record(allocation)
  for (const { slot, lost } of given) {
    const { configuration } = instanceNameParts(instanceOf(slot)) ?? {}
    if (lost && configuration !== undefined) book.lose(configuration, instanceOf(slot))
  }
}

/** Whether the checkpoint has devices of a Configuration. */
export function hasDevicesIn({ discovery }: CheckpointContent) {
  return (configuration: Configuration): boolean => {
    const written = discovery[keyOf(configuration)]
    return (
      written?.uid === configuration.metadata.uid &&
      written.lists.some(({ devices = [] }) => devices.length > 0)
    )
  }
}
