import type { Change, DeviceMonitor } from '../device-monitor.js'

/** A monitor whose changes a test defines, after the first rescan. */
export class ManualMonitor implements DeviceMonitor {
  taken = 0
  problem: string | undefined
  checkProblem?: () => void
  readonly #pending: { readonly change: Change; readonly done: () => void }[] = []
  #wake = () => {}

  /** Resolves when the handler asks for the next change. */
  tell(change: Change): Promise<void> {
    return new Promise((done) => {
      this.#pending.push({ change, done })
      this.#wake()
    })
  }

  async *changes(signal: AbortSignal): AsyncGenerator<Change, void, void> {
    this.taken++
    yield { kind: 'rescan', reason: 'start' }
    signal.addEventListener('abort', () => this.#wake())
    while (!signal.aborted) {
      const next = this.#pending.shift()
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      } else {
        this.taken++
        yield next.change
        next.done()
      }
    }
  }
}
