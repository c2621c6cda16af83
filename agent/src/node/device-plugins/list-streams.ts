import { aborted, Latest, untilAborted } from '@akrijs/runtime'
import type { AdvertisedDevice } from '../../core/plugins/plugin-behaviour.js'
import { type ListCall, listResponse } from './plugin-service.js'

/**
 * The streams on which the kubelet reads the device lists of one plugin. Usually there is one
 * stream.
 */
export class ListStreams {
  readonly #streams = new Set<ListStream>()
  /** Aborted when the kubelet has ended its last stream. */
  #left = new AbortController()

  get size(): number {
    return this.#streams.size
  }

  /** Sends lists to a kubelet until either side ends the stream. */
  async open(call: ListCall): Promise<void> {
    const lists = new ListStream()
    let endedByKubelet = false
    const end = () => {
      endedByKubelet = true
      lists.end()
    }
    call.on('cancelled', end)
    call.on('error', end)
    if (call.cancelled) return
    this.#streams.add(lists)
    for await (const devices of lists) {
      if (!call.write(listResponse(devices))) await drained(call)
    }
    this.#streams.delete(lists)
    call.end()
    if (endedByKubelet && this.#streams.size === 0) this.#left.abort()
  }

  /** @param repeat whether to send a list that equals the list before */
  send(devices: readonly AdvertisedDevice[], { repeat = false } = {}): void {
    for (const stream of this.#streams) stream.send(devices, repeat)
  }

  /** Resolves after the kubelet has ended its last stream, or when the signal is aborted. */
  async left(signal: AbortSignal): Promise<void> {
    // Not AbortSignal.any, which leaves a few bytes on `signal` after each stream (Node 20).
    await untilAborted(aborted(this.#left.signal), signal)
    this.#left = new AbortController()
  }

  end(): void {
    for (const stream of this.#streams) stream.end()
    this.#left = new AbortController()
  }
}

class ListStream extends Latest<readonly AdvertisedDevice[]> {
  #last: string | undefined

  send(devices: readonly AdvertisedDevice[], repeat: boolean): void {
    const text = JSON.stringify(devices)
    if (repeat || text !== this.#last) this.push(devices)
    this.#last = text
  }
}

/** Resolves when the kubelet has read what was written, or is gone. */
function drained(call: ListCall): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const event of ['drain', 'cancelled', 'error']) call.off(event, done)
      resolve()
    }
    if (call.cancelled) return resolve()
    for (const event of ['drain', 'cancelled', 'error']) call.on(event, done)
  })
}
