import type { Device } from '@akrijs/sdk/handler'
import { eventually } from '../support/eventually.js'

/** A list of the handler. */
interface Listed {
  readonly devices: readonly Device[]
}

/** The lists of a discovery. */
export class DeviceWatch {
  /** All lists so far. */
  readonly lists: Listed[] = []
  readonly stop: () => void
  #end: string | undefined

  constructor(stop: () => void) {
    this.stop = stop
  }

  get last(): Listed | undefined {
    return this.lists.at(-1)
  }

  /** The ids of the last list. */
  get ids(): string[] {
    return (this.last?.devices ?? []).map(({ id }) => id)
  }

  /** The first list, from the last list on, that satisfies a condition. */
  until(what: string, satisfied: (list: Listed) => boolean, timeoutMs = 60_000): Promise<Listed> {
    const from = Math.max(0, this.lists.length - 1)
    return eventually(() => {
      const found = this.lists.slice(from).find(satisfied)
      if (found !== undefined) return found
      const end = this.#end === undefined ? '' : `; the discovery ended: ${this.#end}`
      throw new Error(`no list has ${what}; the last has ${JSON.stringify(this.ids)}${end}`)
    }, timeoutMs)
  }

  /** Waits for a list with exactly these devices. */
  untilIds(ids: readonly string[], timeoutMs?: number): Promise<Listed> {
    const wanted = JSON.stringify([...ids].sort())
    const satisfied = ({ devices }: Listed) =>
      JSON.stringify(devices.map(({ id }) => id).sort()) === wanted
    return this.until(`exactly ${ids.join(', ') || 'nothing'}`, satisfied, timeoutMs)
  }

  add(list: Listed): void {
    this.lists.push(list)
  }

  end(reason = 'it was stopped'): void {
    this.#end = reason
  }
}
