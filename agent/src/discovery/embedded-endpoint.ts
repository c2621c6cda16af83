import { AkriError, type DeviceList, type DiscoveryHandler, type Logger, messageOf } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { type DiscoverRequest, DiscoveryFailedError, embeddedUid, type HandlerEndpoint } from '../ports/handler-endpoint.js'

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
  #handler: DiscoveryHandler | undefined

  constructor({ name, load }: EmbeddedHandler, log: Logger) {
    this.name = name
    this.uid = embeddedUid(name)
    this.#load = load
    this.#log = log.child({ handler: name })
  }

  /** Known once the handler has been loaded, and so before its first list. */
  get shared(): boolean {
    return this.#handler?.shared ?? false
  }

  async *discover(
    { details, properties, configuration }: DiscoverRequest,
    signal: AbortSignal,
  ): AsyncGenerator<DeviceList, void, void> {
    try {
      this.#handler ??= await this.#load()
      yield* openDiscovery(this.#handler, { details, properties, signal, log: this.#log.child({ configuration }) })
    } catch (error) {
      const invalid = AkriError.is(error) && error.code === 'AKRI_ERR_INVALID_DETAILS'
      throw new DiscoveryFailedError(invalid ? 'invalid-details' : 'failed', messageOf(error), { cause: error })
    }
  }
}
