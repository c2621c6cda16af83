import type { AdvertisedDevice } from './plugin-behaviour.js'
import { type ListCall, listResponse } from './plugin-service.js'

/**
 * The streams on which the kubelet reads the device lists of one plugin. Usually there is one
 * stream.
 */
export class ListStreams {
  readonly #streams = new Set<ListStream>()
  /** Whether the kubelet has ended its last stream, and `left` has not resolved since. */
  #hasLeft = false
  #wake: (() => void) | undefined

  get size(): number {
    return this.#streams.size
  }

  /** Sends lists to a kubelet until either side ends the stream. */
  open(call: ListCall): void {
    if (call.cancelled) return
    const lists = new ListStream(call)
    this.#streams.add(lists)
    this.#wake?.()
    call.once('cancelled', () => {
      if (!this.#streams.delete(lists) || this.#streams.size > 0) return
      this.#hasLeft = true
      this.#wake?.()
    })
  }

  /** @param repeat whether to send a list that equals the list before */
  send(devices: readonly AdvertisedDevice[], { repeat = false } = {}): void {
    for (const stream of this.#streams) stream.send(devices, repeat)
  }

  /** Resolves when there is a stream, with true, or when the signal is aborted. */
  opened(signal: AbortSignal): Promise<boolean> {
    return this.#until(() => this.size > 0 || this.#hasLeft, signal)
  }

  /** Resolves after the kubelet has ended its last stream, or when the signal is aborted. */
  async left(signal: AbortSignal): Promise<void> {
    await this.#until(() => this.#hasLeft, signal)
    this.#hasLeft = false
  }

  async #until(isTrue: () => boolean, signal: AbortSignal): Promise<boolean> {
    // Not `untilAborted`, whose signals take 3 kB: each device plugin waits here.
    while (!isTrue() && !signal.aborted)
      await new Promise<void>((resolve) => {
        const wake = () => {
          signal.removeEventListener('abort', wake)
          resolve()
        }
        signal.addEventListener('abort', wake)
        this.#wake = wake
      })
    return isTrue()
  }

  /**
   * Ends the streams after their last lists.
   * @param isGone whether a last list says that all ids are unhealthy
   */
  end({ isGone = false } = {}): void {
    for (const stream of this.#streams) stream.end(isGone)
    this.#streams.clear()
    this.#hasLeft = false
  }
}

class ListStream {
  readonly #call: ListCall
  #last: readonly AdvertisedDevice[] | undefined
  /** The list that the kubelet has not got. A newer list takes its place. */
  #next: readonly AdvertisedDevice[] | undefined
  #isSending = false
  #isEnding = false

  constructor(call: ListCall) {
    this.#call = call
  }

  send(devices: readonly AdvertisedDevice[], repeat: boolean): void {
    if (repeat || !isSame(devices, this.#last)) {
      this.#next = devices
      if (!this.#isSending) void this.#sendNext()
    }
    this.#last = devices
  }

  /** Ends the stream after the last list. @param isGone whether that list has no healthy id */
  end(isGone: boolean): void {
    const unhealthy = isGone ? this.#last?.map(({ id }) => ({ id, healthy: false })) : undefined
    if (unhealthy !== undefined) this.send(unhealthy, false)
    this.#isEnding = true
    if (!this.#isSending) this.#call.end()
  }

  async #sendNext(): Promise<void> {
    this.#isSending = true
    // Changes of one event make one list.
    await undefined
    while (this.#next !== undefined) {
      const response = listResponse(this.#next)
      this.#next = undefined
      // Until the kernel has the list. After the end of the call there is nothing more to do, and
      // this never resolves.
      await new Promise((onSent) => this.#call.write(response, onSent))
    }
    this.#isSending = false
    if (this.#isEnding) this.#call.end()
  }
}

function isSame(
  list: readonly AdvertisedDevice[],
  before: readonly AdvertisedDevice[] | undefined,
): boolean {
  if (list === before) return true
  return (
    list.length === before?.length &&
    list.every(
      ({ id, healthy }, index) => before[index]?.id === id && before[index]?.healthy === healthy,
    )
  )
}
