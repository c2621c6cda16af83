import type { AdvertisedDevice } from '../../core/plugins/plugin-behaviour.js'
import type { GrpcStream } from '../grpc/grpc-service.js'
import { listResponse } from './plugin-service.js'

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

  /** Sends lists to a kubelet until either side ends the stream. @returns called when it does */
  open(call: GrpcStream): () => void {
    const lists = new ListStream(call)
    this.#streams.add(lists)
    this.#wake?.()
    return () => {
      if (!this.#streams.delete(lists) || this.#streams.size > 0) return
      this.#hasLeft = true
      this.#wake?.()
    }
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

  end(): void {
    for (const stream of this.#streams) stream.end()
    this.#streams.clear()
    this.#hasLeft = false
  }

  /**
   * Ends the streams after a list in which all ids are unhealthy. Resolves when the kernel has that
   * list: the kubelet reads it before it sees the end of the stream.
   */
  async endUnhealthy(): Promise<void> {
    const ended = [...this.#streams].map((stream) => stream.endUnhealthy())
    this.end()
    await Promise.all(ended)
  }
}

class ListStream {
  readonly #call: GrpcStream
  #last: readonly AdvertisedDevice[] | undefined
  /** The list that the kubelet has not got. A newer list takes its place. */
  #next: readonly AdvertisedDevice[] | undefined
  #isSending = false
  #sending = Promise.resolve()
  #isEnding = false

  constructor(call: GrpcStream) {
    this.#call = call
  }

  send(devices: readonly AdvertisedDevice[], repeat: boolean): void {
    if (repeat || !isSame(devices, this.#last)) {
      this.#next = devices
      if (!this.#isSending) this.#sending = this.#sendNext()
    }
    this.#last = devices
  }

  /** Ends the stream after the last list. */
  end(): void {
    this.#isEnding = true
    if (!this.#isSending) this.#call.end()
  }

  /** Ends the stream after the last list with other health. Resolves when it is sent. */
  endUnhealthy(): Promise<void> {
    const unhealthy = this.#last?.map(({ id }) => ({ id, healthy: false }))
    if (unhealthy !== undefined) this.send(unhealthy, false)
    this.end()
    return this.#sending
  }

  async #sendNext(): Promise<void> {
    this.#isSending = true
    // Changes of one event make one list.
    await undefined
    while (this.#next !== undefined) {
      const devices = this.#next
      this.#next = undefined
      await this.#call.write(listResponse(devices))
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
