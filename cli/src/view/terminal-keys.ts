import { readFileSync } from 'node:fs'
import { emitKeypressEvents, type Key } from 'node:readline'
import type { ReadStream } from 'node:tty'

/** The signals that a terminal sends for a key. Without the terminal's own work, a program does. */
const SIGNALS: Readonly<Record<string, NodeJS.Signals>> = {
  c: 'SIGINT',
  z: 'SIGTSTP',
  '\\': 'SIGQUIT',
}

/** A pressed key. */
export interface PressedKey {
  /** Such as `down`, `return` or `l`. */
  readonly name: string
  /** The character that was typed; empty for other keys. */
  readonly text: string
}

/** The keys of a terminal, without echo and without the wait for Enter. */
export class TerminalKeys {
  readonly #input: ReadStream
  readonly #onKey: (key: PressedKey) => void
  readonly #listener = (text: string | undefined, key: Key) => this.#pressed(text, key)
  #isOpen = false

  constructor(input: ReadStream, onKey: (key: PressedKey) => void) {
    this.#input = input
    this.#onKey = onKey
    emitKeypressEvents(input)
  }

  /** Whether keys arrive. A program in the background would be stopped if it asked for them. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  open(): void {
    if (this.#isOpen || !this.#input.isTTY || !isForeground()) return
    this.#isOpen = true
    this.#input.setRawMode(true)
    this.#input.on('keypress', this.#listener).resume()
  }

  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#input.off('keypress', this.#listener).pause()
    this.#input.setRawMode(false)
  }

  #pressed(text: string | undefined, { name = '', ctrl = false }: Key): void {
    const signal = ctrl ? SIGNALS[name] : undefined
    // As the terminal does: to all processes of the foreground.
    if (signal !== undefined) process.kill(0, signal)
    else if (!ctrl) this.#onKey({ name, text: /^\P{Cc}+$/u.test(text ?? '') ? (text ?? '') : '' })
  }
}

/** Whether the process is in the foreground of its terminal. Without procfs, it is taken for so. */
function isForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1')
    // After the name: state, parent, process group, session, terminal, its foreground group.
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return group === foreground
  } catch {
    return true
  }
}
