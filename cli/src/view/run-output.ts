import { print } from '@akrijs/runtime/program'
import { withoutColors } from './colors.js'
import type { LiveScreen } from './live-screen.js'
import { LiveView } from './live-view.js'

/** How many lines are kept for the live view. */
const KEPT_LINES = 1000

/** The output of `akri run`: lines, or a live view that also shows the last lines. */
export class RunOutput {
  readonly #isLive: boolean
  readonly #isColored: boolean
  readonly #lines: string[] = []
  #view: LiveView | undefined

  constructor(isLive: boolean, isColored: boolean) {
    this.#isLive = isLive
    this.#isColored = isColored
  }

  print(line: string): void {
    if (!this.#isLive) print(process.stdout, `${line}\n`)
    this.#lines.push(line)
    if (this.#lines.length > KEPT_LINES) this.#lines.shift()
    this.redraw()
  }

  /** The last lines, the oldest first. */
  get lines(): readonly string[] {
    return this.#lines
  }

  /** Starts the live view, if there is one. */
  open(screen: LiveScreen): void {
    if (!this.#isLive) return
    this.#view = new LiveView({
      terminal: process.stdout,
      keyboard: process.stdin,
      write: (text) => print(process.stdout, text),
      draw: (size, hasKeys) => {
        const picture = screen.draw(size, hasKeys)
        return this.#isColored ? picture : withoutColors(picture)
      },
      onKey: (key) => screen.press(key),
    })
  }

  redraw(): void {
    this.#view?.redraw()
  }

  /** Restores the terminal. */
  close(): void {
    this.#view?.close()
  }
}
