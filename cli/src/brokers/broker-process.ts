import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { type Clock, messageOf } from '@akrijs/sdk'
import { splitLines } from '@akrijs/sdk/host'

export interface BrokerProcessOptions {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  readonly clock: Clock
  onLine(line: string): void
}

/** How a broker ended. */
export interface BrokerEnd {
  /** It exited with 0. */
  readonly succeeded: boolean
  readonly reason: string
}

/** How long a broker may take to end when it is asked to, in milliseconds. */
const TERM_MS = 5000

/** A broker and whatever it starts: one process group. */
export class BrokerProcess {
  readonly pid: number | undefined
  /** Resolves when it has ended. */
  readonly ended: Promise<BrokerEnd>
  readonly #child: ChildProcess
  readonly #clock: Clock

  constructor({ file, args, env, workingDirectory, clock, onLine }: BrokerProcessOptions) {
    this.#clock = clock
    // A group of its own: ended as a whole, and not by a Ctrl-C that is meant for the agent.
    this.#child = spawn(file, args, { env, cwd: workingDirectory, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    this.pid = this.#child.pid
    for (const stream of [this.#child.stdout, this.#child.stderr]) if (stream !== null) splitLines(stream, onLine)
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) =>
        resolve({ succeeded: false, reason: `it cannot be started: ${whyNot(error, file, workingDirectory)}` }),
      )
      this.#child.once('exit', (code, signal) =>
        resolve({ succeeded: code === 0, reason: signal === null ? `it exited with code ${code}` : `it was ended by ${signal}` }),
      )
    })
  }

  /** Asks the whole group to end, and makes it after a while. */
  async stop(): Promise<void> {
    if (this.pid === undefined) return
    const patience = new AbortController()
    signalGroup(this.pid, 'SIGTERM')
    const late = this.#clock.sleep(TERM_MS, patience.signal).then(
      () => 'late',
      () => 'in time',
    )
    await Promise.race([this.ended, late])
    patience.abort()
    // Also what it left behind: the group lives as long as one of its members.
    signalGroup(this.pid, 'SIGKILL')
    await this.ended
  }
}

/** Sends a signal to all processes of a group; nothing where there are none. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

/** spawn names the command also where it is the working directory that does not exist. */
function whyNot(error: Error, file: string, workingDirectory: string | undefined): string {
  if (workingDirectory !== undefined && !existsSync(workingDirectory)) return `its workingDir ${workingDirectory} does not exist`
  const code = 'code' in error ? error.code : undefined
  if (code === 'ENOENT' && !file.includes('/')) return `its command ${file} does not exist in PATH`
  if (code === 'ENOENT' && existsSync(path.resolve(workingDirectory ?? '', file)))
    return `the interpreter that its command ${file} names does not exist`
  if (code === 'ENOENT') return `its command ${file} does not exist`
  if (code === 'EACCES') return `its command ${file} is no program, or may not be run`
  return messageOf(error)
}
