import { type Logger, messageOf, untilAborted } from '@akrijs/runtime'
import { type DiscoveryHandler, InvalidDetailsError } from '@akrijs/sdk/handler'
import { deviceReports, followDiscovery } from '@akrijs/sdk/host'
import { firstDevices } from './discover-response.js'
import {
  type BoundedList,
  type DiscoverRequest,
  DiscoveryFailedError,
  embeddedUid,
  type HandlerEndpoint,
} from './handler-endpoint.js'

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

  /** @param after an import blocks the thread, so it waits for this; must not reject */
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
    { details, properties, configuration, ...bound }: DiscoverRequest,
    signal: AbortSignal,
  ): AsyncGenerator<BoundedList, void, void> {
    try {
      const load = () => (signal.aborted ? undefined : this.#load())
      // An import may never end.
      this.#handler ??= await untilAborted(this.#after.then(load), signal)
      if (this.#handler === undefined) return
      const log = this.#log.child({ configuration })
      const request = { details, properties, signal, log }
      for await (const list of followDiscovery(this.#handler, request)) {
        const devices = firstDevices(list.devices, bound)
        const leftOut = list.devices.length - devices.length
        yield { devices, leftOut, reports: deviceReports(list) }
      }
    } catch (error) {
      const failure = InvalidDetailsError.is(error) ? 'invalid-details' : 'failed'
      throw new DiscoveryFailedError(failure, messageOf(error), { cause: error })
    }
  }
}
