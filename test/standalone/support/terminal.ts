import { type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { Screen } from './screen.js'

const PYTHON = '/usr/bin/python3'
const PROGRAM = path.join(import.meta.dirname, 'terminal.py')

/** What this machine lacks for terminals. */
export const missingForTerminals = (): string[] =>
  spawnSync(PYTHON, ['-c', 'import pty, termios']).status === 0 ? [] : [PYTHON]

/** A pseudo terminal with a program, a screen and a keyboard. */
export class Terminal {
  readonly screen: Screen
  /** All output of the program. */
  raw = ''
  /** The exit code of the program. */
  readonly ended: Promise<number | null>
  readonly #child: ChildProcessByStdio<Writable, Readable, null>

  constructor(
    size: { readonly columns: number; readonly rows: number },
    command: readonly string[],
  ) {
    const { columns, rows } = size
    this.screen = new Screen(columns || 80, rows || 24)
    this.#child = spawn(PYTHON, [PROGRAM, String(columns), String(rows), ...command], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, TERM: 'xterm-256color', NO_COLOR: '', FORCE_COLOR: '' },
    })
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.raw += text
      this.screen.write(text)
    })
    this.ended = new Promise((resolve) => this.#child.once('close', (code) => resolve(code)))
  }

  /** The process of the window: the parent of all processes in it. */
  get pid(): number {
    return this.#child.pid ?? 0
  }

  type(keys: string): void {
    this.#child.stdin.write(`type ${Buffer.from(keys).toString('hex')}\n`)
  }

  resize(columns: number, rows: number): void {
    this.screen.resize(columns, rows)
    this.#child.stdin.write(`resize ${columns} ${rows}\n`)
  }

  /** Closes the window. */
  close(): void {
    this.#child.stdin.end()
  }
}
