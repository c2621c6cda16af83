import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { type Clock, messageOf, splitLines } from '@akrijs/runtime'

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
  /** What of its container is the reason that it could not be started. */
  readonly field?: 'command[0]' | 'workingDir'
}

/** How long a broker may take to end when it is asked to, in milliseconds. */
const TERM_MS = 5000

/** A broker and whatever it starts: one process group. */
export class BrokerProcess {
  readonly pid: number | undefined
  /** Resolves when it has ended. */
  readonly ended: Promise<BrokerEnd>
  readonly #clock: Clock

  constructor({ clock, onLine, ...options }: BrokerProcessOptions) {
    this.#clock = clock
    const child = started(options)
    if ('reason' in child) {
      this.ended = Promise.resolve(child)
      return
    }
    this.pid = child.pid
    for (const stream of [child.stdout, child.stderr])
      if (stream !== null) splitLines(stream, onLine)
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => resolve(whyNot(error, options)))
      child.once('exit', (code, signal) =>
        resolve({
          succeeded: code === 0,
          reason: signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`,
        }),
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

type Start = Omit<BrokerProcessOptions, 'clock' | 'onLine'>

function started(options: Start): ChildProcess | BrokerEnd {
  const { file, args, env, workingDirectory: cwd } = options
  try {
    // A group of its own: ended as a whole, and not by a Ctrl-C that is meant for the agent.
    return spawn(file, args, { env, cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    // Some of what the kernel refuses is thrown, some is an event.
    return whyNot(error, options)
  }
}

function whyNot(error: unknown, { file, workingDirectory }: Start): BrokerEnd {
  const because = (reason: string, field?: BrokerEnd['field']) => ({
    succeeded: false,
    reason: `it cannot be started: ${reason}`,
    ...(field === undefined ? {} : { field }),
  })
  // spawn names the command also where it is the working directory that is wrong.
  if (workingDirectory !== undefined) {
    const wrong = whyNoDirectory(workingDirectory)
    if (wrong !== undefined)
      return because(`its workingDir ${workingDirectory} ${wrong}`, 'workingDir')
  }
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT' && !file.includes('/'))
    return because(`its command ${file} does not exist in PATH`, 'command[0]')
  if (code === 'ENOENT' && existsSync(path.resolve(workingDirectory ?? '', file)))
    return because(`the interpreter that its command ${file} names does not exist`, 'command[0]')
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return because(`its command ${file} does not exist`, 'command[0]')
  if (code === 'EACCES')
    return because(`its command ${file} is no program, or may not be run`, 'command[0]')
  return because(messageOf(error))
}

function whyNoDirectory(directory: string): string | undefined {
  try {
    const found = statSync(directory, { throwIfNoEntry: false })
    if (found === undefined) return 'does not exist'
    return found.isDirectory() ? undefined : 'is not a directory'
  } catch (error) {
    return `cannot be entered: ${messageOf(error)}`
  }
}
