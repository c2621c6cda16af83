import { isDeepStrictEqual } from 'node:util'
import { aborted, type Clock, currentClock, requireSignal, toMilliseconds } from '@akrijs/runtime'
import { jsonBytes, MAX_JSON_BYTES } from './fit-into-list.js'
import type { Device } from './handler/device.js'

/** Other hosts can announce any number of devices. */
const MAX_DEVICES = 10_000

/** The changes of this time come with one list, in milliseconds. */
const GATHER_MS = 100

/** Options of {@link deviceMap}. */
export interface DeviceMapOptions {
  /**
   * The time until the first list, in milliseconds or as a text such as `'2s'`. The agent takes a
   * device that the first list does not have as gone. So the devices of a restarted handler need
   * time to announce themselves.
   * @default '2s'
   */
  readonly firstAfter?: number | string
  /**
   * Removes a device that was not set again for this time, in milliseconds or as a text such as
   * `'30s'`.
   * @default never
   */
  readonly forgetAfter?: number | string
  /** @default the clock of the discovery, see `currentClock` */
  readonly clock?: Clock
}

/**
 * Makes complete lists from events: for devices that announce themselves, and say goodbye.
 *
 * @throws InvalidIntervalError
 *
 * @example
 * const devices = deviceMap({ forgetAfter: '30s' })
 * hub.on('birth', ({ id, url }) => devices.set({ id, properties: { SENSOR_URL: url } }))
 * hub.on('death', ({ id }) => devices.delete(id))
 * hub.on('error', (error) => devices.end(error))
 * yield* devices.lists({ signal })
 */
export function deviceMap<D extends Device = Device>(options: DeviceMapOptions = {}): DeviceMap<D> {
  return new DeviceMap(options)
}

interface Entry<D> {
  readonly device: D
  readonly bytes: number
  /** When the device was set. */
  readonly setAt: number
}

/**
 * The devices of now, by {@link deviceMap}.
 *
 * @example
 * const sensors = deviceMap({ forgetAfter: '30s' })
 * sensors.set({ id: 'hall', properties: { SENSOR_URL: 'http://hall.local' } })
 * sensors.delete('hall')
 */
export class DeviceMap<D extends Device = Device> {
  readonly #clock: Clock
  readonly #firstMs: number
  readonly #forgetMs: number
  readonly #createdAt: number
  /** In the order in which the devices were set last. */
  readonly #entries = new Map<string, Entry<D>>()
  #bytes = 0
  #isChanged = true
  #end: { readonly error?: unknown } | undefined
  #wake: (() => void) | undefined

  /** @internal */
  constructor({ firstAfter = '2s', forgetAfter, clock = currentClock() }: DeviceMapOptions) {
    this.#clock = clock
    this.#firstMs = toMilliseconds(firstAfter)
    this.#forgetMs =
      forgetAfter === undefined ? Number.POSITIVE_INFINITY : toMilliseconds(forgetAfter)
    this.#createdAt = clock.monotonicMs()
    // For events of a library: hub.on('death', devices.delete).
    for (const method of ['set', 'delete', 'clear', 'end', 'get'] as const)
      Object.defineProperty(this, method, { value: this[method].bind(this) })
  }

  /** The number of devices. */
  get size(): number {
    return this.#entries.size
  }

  /** The device with this id; undefined if it was not set. */
  get(id: string): D | undefined {
    return this.#entries.get(id)?.device
  }

  /**
   * Adds a device, or replaces the device with its id. Each call begins the time of `forgetAfter`
   * again.
   * @returns false, without a change, if a list has no room: it takes 10,000 devices or about 3 MiB
   * @throws InvalidDeviceListError if the device has a value without JSON, such as a BigInt
   */
  set(device: D): boolean {
    const bytes = jsonBytes(device)
    const before = this.#entries.get(device.id)
    const room = MAX_JSON_BYTES - this.#bytes + (before?.bytes ?? 0)
    if (bytes > room || (before === undefined && this.#entries.size >= MAX_DEVICES)) return false
    this.#remove(device.id)
    this.#entries.set(device.id, { device, bytes, setAt: this.#clock.monotonicMs() })
    this.#bytes += bytes
    // The program can have changed an object that it sets again.
    const isSame = device !== before?.device && isDeepStrictEqual(device, before?.device)
    if (!isSame) this.#change()
    return true
  }

  /** Removes a device, such as after its goodbye. @returns whether it was there */
  delete(id: string): boolean {
    const isRemoved = this.#remove(id)
    if (isRemoved) this.#change()
    return isRemoved
  }

  /** Removes all devices, such as after the connection to a broker was lost. */
  clear(): void {
    for (const id of [...this.#entries.keys()]) this.delete(id)
  }

  /**
   * Ends {@link lists}. The first end counts.
   * @param error what `lists` throws; without it, `lists` returns after a list of the last changes
   */
  end(...error: [] | [unknown]): void {
    this.#end ??= error.length > 0 ? { error: error[0] } : {}
    this.#wake?.()
  }

  /**
   * Complete lists, for `yield*` in `discover`: the first after `firstAfter`, also if it is empty,
   * and the next ones 100 ms after a change, with all changes until then. Ends with its signal.
   * A map has one such loop.
   * @param options the signal
   * @param options.signal ends the loop
   * @throws the error of {@link end}, and InvalidOptionError without a signal
   */
  async *lists(options: { readonly signal: AbortSignal }): AsyncGenerator<D[], void, void> {
    const signal = requireSignal(options?.signal, 'lists({ signal })')
    const isOver = () => signal.aborted || this.#end !== undefined
    const onAbort = () => this.#wake?.()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      const firstMs = this.#createdAt + this.#firstMs - this.#clock.monotonicMs()
      if (firstMs > 0) await this.#pause(firstMs, isOver)
      while (!signal.aborted) {
        if (this.#end !== undefined && 'error' in this.#end) throw this.#end.error
        this.#forget()
        if (this.#isChanged) {
          this.#isChanged = false
          yield [...this.#entries.values()].map(({ device }) => device)
        } else if (this.#end !== undefined) return
        await this.#pause(this.#untilForget(), () => this.#isChanged || isOver())
        if (this.#isChanged) await this.#pause(GATHER_MS, isOver)
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Waits for a time, but not longer than until the condition holds. */
  async #pause(ms: number, condition: () => boolean): Promise<void> {
    const over = new AbortController()
    this.#wake = () => condition() && over.abort()
    this.#wake()
    if (ms === Number.POSITIVE_INFINITY) await aborted(over.signal)
    else await this.#clock.sleep(ms, over.signal).catch(() => undefined)
    this.#wake = undefined
  }

  #change(): void {
    this.#isChanged = true
    this.#wake?.()
  }

  #remove(id: string): boolean {
    this.#bytes -= this.#entries.get(id)?.bytes ?? 0
    return this.#entries.delete(id)
  }

  #forget(): void {
    const before = this.#clock.monotonicMs() - this.#forgetMs
    for (const [id, { setAt }] of this.#entries) {
      if (setAt > before) return
      this.#isChanged = this.#remove(id)
    }
  }

  /** Milliseconds until the device is forgotten that was set first. */
  #untilForget(): number {
    for (const { setAt } of this.#entries.values())
      return setAt + this.#forgetMs - this.#clock.monotonicMs()
    return Number.POSITIVE_INFINITY
  }
}
