import type { Empty, ListAndWatchResponse } from '@akrijs/proto/device-plugin'
import type { ServerWritableStream } from '@grpc/grpc-js'
import type { AdvertisedDevice } from '../slots/resource.js'

/** A stream on which the kubelet reads device lists. */
type ListCall = ServerWritableStream<Empty, ListAndWatchResponse>

/**
 * The streams on which the kubelet reads the device lists of one plugin. Usually there is one
 * stream.
 */
export class ListStreams {
  readonly #streams = new Set<ListStream>()
  /** The last list. */
  #list: readonly AdvertisedDevice[] = []
  #change = new AbortController()

  get size(): number {
    return this.#streams.size
  }

  /** How many ids the last list had. */
  get ids(): number {
    return this.#list.length
  }

  /** Aborted by the next {@link wake}, and when a stream is opened or ended. */
  get changed(): AbortSignal {
    return this.#change.signal
  }

  wake(): void {
    this.#change.abort()
    this.#change = new AbortController()
  }

  /** Sends lists to a kubelet until either side ends the stream. */
  open(call: ListCall): void {
    if (call.cancelled) return
    const stream = new ListStream(call)
    this.#streams.add(stream)
    call.once('cancelled', () => {
      if (this.#streams.delete(stream)) this.wake()
    })
    this.wake()
  }

  /** @param repeat whether to send a list that equals the list before */
  send(devices: readonly AdvertisedDevice[], { repeat = false } = {}): void {
    if (!repeat && isSame(devices, this.#list)) return
    this.#list = devices
    for (const stream of this.#streams) stream.send(devices)
  }

  /**
   * Ends the streams after their last lists.
   * @param isGone whether a last list says that all ids are unhealthy
   */
  end({ isGone = false } = {}): void {
    if (isGone) this.send(this.#list.map(({ id }) => ({ id, healthy: false })))
    for (const stream of this.#streams) stream.end()
    this.#streams.clear()
    this.wake()
  }
}

class ListStream {
  readonly #call: ListCall
  /** The list that the kubelet has not got. A newer list takes its place. */
  #next: readonly AdvertisedDevice[] | undefined
  #isSending = false
  #isEnding = false

  constructor(call: ListCall) {
    this.#call = call
  }

  send(devices: readonly AdvertisedDevice[]): void {
    this.#next = devices
    if (!this.#isSending) void this.#sendNext()
  }

  end(): void {
    this.#isEnding = true
    if (!this.#isSending) this.#call.end()
  }

  async #sendNext(): Promise<void> {
    this.#isSending = true
    for (let list = this.#next; list !== undefined; list = this.#next) {
      const response = listResponse(list)
      this.#next = undefined
      // Until the kernel has the list. After the end of the call there is nothing more to do, and
      // this never resolves.
      await new Promise((onSent) => this.#call.write(response, onSent))
    }
    this.#isSending = false
    if (this.#isEnding) this.#call.end()
  }
}

function listResponse(list: readonly AdvertisedDevice[]): ListAndWatchResponse {
  return {
    devices: list.map(({ id: ID, healthy }) => ({
      ID,
      health: healthy ? 'Healthy' : 'Unhealthy',
      topology: undefined,
    })),
  }
}

function isSame(list: readonly AdvertisedDevice[], other: readonly AdvertisedDevice[]): boolean {
  return (
    list.length === other.length &&
    list.every(({ id, healthy }, at) => other[at]?.id === id && other[at]?.healthy === healthy)
  )
}
