import { type Logger, messageOf, untilAborted } from '@akrijs/runtime'
import {
  type DeviceList,
  type DiscoveryHandler,
  InvalidDetailsError,
} from '@akrijs/runtime/handler'
import { openDiscovery } from '@akrijs/sdk/host'
import {
  type DiscoverRequest,
  DiscoveryFailedError,
  embeddedUid,
  type HandlerEndpoint,
} from '../../ports/handler-endpoint.js'

export interface EmbeddedHandler {
  readonly name: string
  /** Imports the handler. Called when a Configuration first needs it, and again after a failure. */
  load(): Promise<DiscoveryHandler>
}

/** A handler in this process. */
export class EmbeddedEndpoint implements HandlerEndpoint {
  readonly uid: string
  readonly name: string
  readonly #log: Logger
  readonly #load: () => Promise<DiscoveryHandler>
  readonly #after: Promise<void>
  #handler: DiscoveryHandler | undefined

  /**
   * @param after the handler is imported after this, because an import blocks the thread; must not
   * reject
   */
  constructor({ name, load }: EmbeddedHandler, log: Logger, after: Promise<void>) {
    this.name = name
    this.uid = embeddedUid(name)
    this.#load = load
    this.#after = after
    this.#log = log.child({ handler: name })
  }

  /** False until the handler is loaded, which happens before its first list. */
  get shared(): boolean {
    return this.#handler?.shared ?? false
  }

  async *discover(
    { details, properties, configuration }: DiscoverRequest,
    signal: AbortSignal,
  ): AsyncGenerator<DeviceList, void, void> {
    try {
      const handler = this.#handler ?? (await this.#loaded(signal))
      if (handler === undefined) return
      yield* openDiscovery(handler, {
        details,
        properties,
        signal,
        log: this.#log.child({ configuration }),
      })
    } catch (error) {
      const failure = InvalidDetailsError.is(error) ? 'invalid-details' : 'failed'
      throw new DiscoveryFailedError(failure, messageOf(error), { cause: error })
    }
  }

  /** @returns undefined if the signal is aborted first: an import may never end */
  async #loaded(signal: AbortSignal): Promise<DiscoveryHandler | undefined> {
    await untilAborted(this.#after, signal)
    if (signal.aborted) return undefined
    this.#handler = (await untilAborted(this.#load(), signal)) ?? this.#handler
    return this.#handler
  }
}
