import { promises as dns } from 'node:dns'
import type { Clock } from '@akrijs/sdk'

/** All addresses of a host name; rejects where it has none. */
export type Resolve = (host: string) => Promise<readonly string[]>

export interface HostNamesOptions {
  readonly clock: Pick<Clock, 'now'>
  /** @default as the system does */
  readonly resolve?: Resolve
  /** How long to wait for a name, in milliseconds. @default 3000 */
  readonly patienceMs?: number
}

/** Node has names resolved on two threads at most (libuv, `slow_work_thread_threshold`): one is left for the rest of the process. */
const AT_ONCE = 1
/** What was resolved, or not, is not asked for again so soon, in milliseconds. */
const FRESH_MS = 60_000
/** A name that nobody has wanted for so long is not resolved any more, in milliseconds. */
const WANTED_MS = 60_000
/** What nobody has wanted for so long is forgotten, in milliseconds. */
const REMEMBERED_MS = 3_600_000
/** Any further one is not resolved. */
const MAX_NAMES = 1000

interface Name {
  readonly host: string
  /** What the resolver said last, if it has answered. */
  answer:
    | { readonly addresses: readonly string[]; readonly at: number }
    | { readonly error: unknown; readonly at: number }
    | undefined
  /** When it was wanted last, in milliseconds. */
  wantedAt: number
  /** Until the resolver answers; never rejects. */
  asking: Promise<void> | undefined
}

/** What host names mean. Cameras name hosts themselves: whoever has a slow name server must not hold up all other names. */
export class HostNames {
  readonly #clock: Pick<Clock, 'now'>
  readonly #resolve: Resolve
  readonly #patienceMs: number
  readonly #names = new Map<string, Name>()
  readonly #waiting: { readonly name: Name; readonly done: () => void }[] = []
  #running = 0

  constructor({ clock, resolve = resolveBySystem, patienceMs = 3000 }: HostNamesOptions) {
    this.#clock = clock
    this.#resolve = resolve
    this.#patienceMs = patienceMs
  }

  /**
   * The addresses of a host name. Where the resolver is slow, those that it had before count.
   * @throws what the resolver throws; Error where it has not answered in time, or is asked for too many names
   */
  readonly addressesOf: Resolve = async (host) => {
    const name = this.#names.get(host) ?? this.#enter(host)
    name.wantedAt = this.#clock.now()
    if (name.answer === undefined || name.wantedAt - name.answer.at >= FRESH_MS) await this.#withPatience(this.#ask(name))
    if (name.answer === undefined) throw new Error(`it is not resolved within ${this.#patienceMs} ms`)
    if ('error' in name.answer) throw name.answer.error
    return name.answer.addresses
  }

  #enter(host: string): Name {
    const now = this.#clock.now()
    for (const { host: known, wantedAt } of this.#names.values()) if (now - wantedAt >= REMEMBERED_MS) this.#names.delete(known)
    if (this.#names.size >= MAX_NAMES) throw new Error(`there are ${MAX_NAMES} names already`)
    const name: Name = { host, answer: undefined, wantedAt: now, asking: undefined }
    this.#names.set(host, name)
    return name
  }

  #ask(name: Name): Promise<void> {
    name.asking ??= new Promise<void>((resolve) => {
      this.#waiting.push({ name, done: resolve })
    }).finally(() => {
      name.asking = undefined
    })
    this.#runNext()
    return name.asking
  }

  #runNext(): void {
    while (this.#running < AT_ONCE) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      if (this.#clock.now() - next.name.wantedAt >= WANTED_MS) {
        next.done()
        continue
      }
      this.#running++
      void this.#answer(next.name).finally(() => {
        this.#running--
        next.done()
        this.#runNext()
      })
    }
  }

  async #answer(name: Name): Promise<void> {
    try {
      const addresses = await this.#resolve(name.host)
      name.answer = { addresses, at: this.#clock.now() }
    } catch (error) {
      name.answer = { error, at: this.#clock.now() }
    }
  }

  async #withPatience(answer: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    // By the real time, since that is what the resolver takes.
    const enough = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#patienceMs)
    })
    await Promise.race([answer, enough])
    clearTimeout(timer)
  }
}

/** As the system does. */
export async function resolveBySystem(host: string): Promise<readonly string[]> {
  return (await dns.lookup(host, { all: true })).map(({ address }) => address)
}
