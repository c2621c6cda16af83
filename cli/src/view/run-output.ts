import { print } from '@akrijs/runtime/program'
import { withoutColors } from './colors.js'
import { LiveView } from './live-view.js'

/** How many lines are kept for the live view. */
const KEPT_LINES = 50

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

  /** Starts the live view, if there is one. */
  open(
    draw: (
      lines: readonly string[],
      size: { readonly columns: number; readonly rows: number },
    ) => readonly string[],
  ): void {
    if (!this.#isLive) return
    const lines = this.#lines
    this.#view = new LiveView({
      terminal: process.stdout,
      write: (text) => print(process.stdout, text),
      draw: (size) => (this.#isColored ? draw(lines, size) : withoutColors(draw(lines, size))),
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
