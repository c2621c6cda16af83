import { backoff, type Clock, type Logger } from '@akrijs/runtime'
import type { AdmittedDevice, HandlerAccess } from '../access/handler-access.js'
import { handlerOfUid } from '../handlers/handler-endpoint.js'
import type { EndpointList } from './device-ageing.js'

type Devices = readonly AdmittedDevice[]

interface ReadmissionOptions {
  readonly clock: Clock
  readonly random: () => number
  readonly log: Logger
  readonly admit: HandlerAccess['admit']
  /** Called with the devices of a list and the same devices with other refusals. */
  onChange(before: Devices, after: Devices): void
}

/** Between attempts, in milliseconds. */
const BACKOFF = { initialMs: 1000, ceilingMs: 300_000 }

/**
 * Decides again about devices that are refused because of the present state of the node: a slow
 * answer of the kernel or a device that comes later must not last until the next list of a handler.
 */
export class Readmission {
  readonly #options: ReadmissionOptions
  #refused: readonly { readonly handler: string; readonly devices: Devices }[] = []
  #stop = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: ReadmissionOptions) {
    this.#options = options
  }

  /** Follows the lists; other lists begin with short pauses. */
  follow(lists: readonly EndpointList[]): void {
    const refused = lists.flatMap(({ endpoint, devices }) =>
      devices?.some(({ isTemporary }) => isTemporary)
        ? [{ handler: handlerOfUid(endpoint), devices }]
        : [],
    )
    const isSame = ({ devices }: { readonly devices: Devices }, index: number) =>
      devices === this.#refused[index]?.devices
    if (refused.length === this.#refused.length && refused.every(isSame)) return
    this.#refused = refused
    this.#stop.abort()
    if (refused.length === 0) return
    const stop = new AbortController()
    this.#stop = stop
    this.#running = this.#running.then(() => this.#run(stop.signal))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, log, admit, onChange } = this.#options
    try {
      for (const wait of backoff({ ...BACKOFF, random })) {
        await clock.sleep(wait, signal)
        for (const { handler, devices } of this.#refused) {
          if (signal.aborted) return
          const admitted = await admit(
            handler,
            devices.map((device) => device.reported ?? device),
          )
          if (signal.aborted) return
          const isOther = ({ refusal }: AdmittedDevice, index: number) =>
            refusal !== devices[index]?.refusal
          if (admitted.some(isOther)) onChange(devices, admitted)
        }
      }
    } catch (error) {
      if (!signal.aborted) log.error({ err: error }, 'refused devices not checked again')
    }
  }
}
