import type { ReadStream, WriteStream } from 'node:tty'
import { type PressedKey, TerminalKeys } from './terminal-keys.js'

/** The part of a terminal that is used. */
type Terminal = Pick<WriteStream, 'columns' | 'rows' | 'on' | 'off'>

interface LiveViewOptions {
  readonly terminal: Terminal
  readonly keyboard: ReadStream
  /** Writes to the terminal. */
  write(text: string): void
  /** The present picture, as lines that fit. */
  draw(
    size: { readonly columns: number; readonly rows: number },
    hasKeys: boolean,
  ): readonly string[]
  onKey(key: PressedKey): void
}

// Private modes of xterm, which other terminals share: the alternate screen, no cursor, no line
// wrap. Without line wrap, the terminal cuts lines that are too long while a window shrinks.
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l'
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l'
// Synchronized output: a terminal without it may flicker.
const BEGIN_FRAME = '\u001b[?2026h'
const END_FRAME = '\u001b[?2026l'
const HOME = '\u001b[H'
const ERASE_LINE_END = '\u001b[K'
const ERASE_BELOW = '\u001b[J'

/** The shortest time between two frames, in milliseconds. */
const FRAME_MS = 100
/** The size of a terminal that does not know its size. */
const COLUMNS = 80
const ROWS = 24

/**
 * A picture on the alternate screen of a terminal; the normal screen returns afterwards. Each frame
 * draws the whole picture over the echo of keys and the output of other programs.
 */
export class LiveView {
  readonly #options: LiveViewOptions
  readonly #keys: TerminalKeys
  readonly #redraw = () => this.redraw()
  readonly #close = () => this.close()
  /** Ctrl-Z: the shell has the terminal until SIGCONT. */
  readonly #suspend = () => {
    this.#leave()
    process.kill(process.pid, 'SIGSTOP')
  }
  readonly #resume = () => {
    if (!this.#entered) return this.#enter()
    // It may be in the foreground now.
    this.#keys.open()
    this.#paint()
  }
  #due: NodeJS.Timeout | undefined
  #entered = false
  #closed = false

  constructor(options: LiveViewOptions) {
    this.#options = options
    this.#keys = new TerminalKeys(options.keyboard, (key) => options.onKey(key))
    options.terminal.on('resize', this.#redraw)
    // Without this, the terminal would stay on the alternate screen after any end but SIGKILL.
    process.on('exit', this.#close)
    process.on('SIGTSTP', this.#suspend)
    process.on('SIGCONT', this.#resume)
    this.#enter()
  }

  /** Draws soon, and once for many calls. */
  redraw(): void {
    if (this.#closed || this.#due !== undefined) return
    this.#due = setTimeout(() => {
      this.#due = undefined
      this.#paint()
    }, FRAME_MS).unref()
  }

  /** Restores the terminal. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#due)
    this.#options.terminal.off('resize', this.#redraw)
    process.off('exit', this.#close)
    process.off('SIGTSTP', this.#suspend)
    process.off('SIGCONT', this.#resume)
    this.#leave()
  }

  #enter(): void {
    this.#entered = true
    this.#options.write(ENTER)
    this.#keys.open()
    this.#paint()
  }

  #leave(): void {
    if (!this.#entered) return
    this.#entered = false
    this.#keys.close()
    this.#options.write(LEAVE)
  }

  #paint(): void {
    if (!this.#entered) return
    const { terminal, write, draw } = this.#options
    // A terminal that does not know its size reports 0.
    const [columns, rows] = [terminal.columns || COLUMNS, terminal.rows || ROWS]
    const lines = draw({ columns, rows }, this.#keys.isOpen).slice(0, rows)
    const picture = lines.map((line) => line + ERASE_LINE_END).join('\r\n')
    // The cursor stays at the top, where a typed line feed does not scroll the picture.
    write(BEGIN_FRAME + HOME + picture + ERASE_BELOW + HOME + END_FRAME)
  }
}
