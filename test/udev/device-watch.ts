import type { Device } from '@akrijs/sdk/handler'

/** A list of the handler. */
export interface TimedList {
  readonly devices: readonly Device[]
  /** The time of the list: CLOCK_MONOTONIC of the machine, in milliseconds. */
  readonly at: number
}

interface Waiting {
  readonly satisfied: (list: TimedList) => boolean
  resolve(list: TimedList): void
  reject(error: Error): void
}

/** An expected list did not arrive. */
export class DeviceWatchError extends Error {
  override readonly name = 'DeviceWatchError'
}

/** The lists of a discovery. */
export class DeviceWatch {
  /** All lists so far. */
  readonly lists: TimedList[] = []
  readonly #stop: () => void
  #waiting: Waiting[] = []

  constructor(stop: () => void) {
    this.#stop = stop
  }

  get last(): TimedList | undefined {
    return this.lists.at(-1)
  }

  /** The ids of the last list. */
  get ids(): string[] {
    return (this.last?.devices ?? []).map(({ id }) => id)
  }

  /** The first list, from the last list on, that satisfies a condition. */
  async until(
    what: string,
    satisfied: (list: TimedList) => boolean,
    timeoutMs = 60_000,
  ): Promise<TimedList> {
    if (this.last !== undefined && satisfied(this.last)) return this.last
    let timer: NodeJS.Timeout | undefined
    try {
      return await new Promise<TimedList>((resolve, reject) => {
        const waiting = { satisfied, resolve, reject }
        this.#waiting.push(waiting)
        const tooLate = () =>
          reject(new DeviceWatchError(`waited ${timeoutMs} ms for ${what}; ${this.#state()}`))
        timer = setTimeout(tooLate, timeoutMs)
      })
    } finally {
      clearTimeout(timer)
    }
  }

  /** Waits for a list with exactly these devices. */
  untilIds(ids: readonly string[], timeoutMs?: number): Promise<TimedList> {
    const wanted = JSON.stringify([...ids].sort())
    const satisfied = ({ devices }: TimedList) =>
      JSON.stringify(devices.map(({ id }) => id).sort()) === wanted
    return this.until(`exactly ${ids.join(', ') || 'nothing'}`, satisfied, timeoutMs)
  }

  add(list: TimedList): void {
    this.lists.push(list)
    this.#waiting = this.#waiting.filter(({ satisfied, resolve }) => {
      if (!satisfied(list)) return true
      resolve(list)
      return false
    })
  }

  end(reason = 'it was stopped'): void {
    for (const { reject } of this.#waiting.splice(0))
      reject(new DeviceWatchError(`the discovery ended: ${reason}`))
  }

  stop(): void {
    this.#stop()
  }

  #state(): string {
    return `of ${this.lists.length} lists the last one is ${JSON.stringify(this.ids)}`
  }
}
