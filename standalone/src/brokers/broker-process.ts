import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { type Clock, codeOf, messageOf, splitLines } from '@akrijs/runtime'

interface BrokerProcessOptions {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  readonly clock: Clock
  onLine(line: string): void
}

/** The end of a process. */
export interface BrokerEnd {
  /** Whether the exit code is 0. */
  readonly succeeded: boolean
  readonly reason: string
  /** The field of the container that made the start impossible. */
  readonly field?: 'command[0]' | 'workingDir'
}

interface StopOptions {
  /** Aborted when a process that signals do not end is left behind. */
  readonly abandon: AbortSignal
  /** Signals do not end the processes: they run as another user, or the kernel holds them. */
  onStubborn(): void
}

/** How long a broker has to end after SIGTERM, in milliseconds. */
const TERM_MS = 5000
/** How long SIGKILL may take, and the time between two attempts, in milliseconds. */
const KILL_MS = 1000

/** A process of a broker with its children: one process group. */
export class BrokerProcess {
  readonly pid: number | undefined
  /** Resolves when the process has ended. */
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
      child.once('error', (error) => resolve(failedStart(error, options)))
      child.once('exit', (code, signal) =>
        resolve({
          succeeded: code === 0,
          reason: signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`,
        }),
      )
    })
  }

  /**
   * Ends the whole group: by SIGTERM, and then by SIGKILL. Waits for processes that signals do not
   * end, such as those of another user.
   * @returns whether the group has ended
   */
  async stop({ abandon, onStubborn }: StopOptions): Promise<boolean> {
    if (this.pid === undefined) return true
    signalGroup(this.pid, 'SIGTERM')
    await this.#endsWithin(TERM_MS)
    // The group lives as long as any of its members.
    signalGroup(this.pid, 'SIGKILL')
    for (let isFirst = true; ; isFirst = false) {
      // The rest of a group can refuse signals.
      if ((await this.#endsWithin(KILL_MS)) && signalGroup(this.pid, 'SIGKILL')) return true
      if (isFirst) onStubborn()
      await this.#clock.sleep(KILL_MS, abandon).catch(() => undefined)
      if (abandon.aborted) return false
      signalGroup(this.pid, 'SIGKILL')
    }
  }

  /** Whether the process that leads the group ends within a time. */
  async #endsWithin(ms: number): Promise<boolean> {
    const over = new AbortController()
    const limit = this.#clock.sleep(ms, over.signal).then(
      () => false,
      () => false,
    )
    const isEnded = await Promise.race([this.ended.then(() => true), limit])
    over.abort()
    return isEnded
  }
}

/**
 * Sends a signal to all processes of a group, if there are any.
 * @returns false if all of them run as another user, as after sudo
 */
export function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (codeOf(error) === 'EPERM') return false
    if (codeOf(error) !== 'ESRCH') throw error
  }
  return true
}

type Start = Omit<BrokerProcessOptions, 'clock' | 'onLine'>

function started(options: Start): ChildProcess | BrokerEnd {
  const { file, args, env, workingDirectory: cwd } = options
  try {
    // In a new group: it is ended as a whole, and Ctrl-C reaches only the agent.
    return spawn(file, args, { env, cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    // spawn throws some errors, and reports others by an event.
    return failedStart(error, options)
  }
}

function failedStart(error: unknown, { file, workingDirectory }: Start): BrokerEnd {
  const failure = (reason: string, field?: BrokerEnd['field']) => ({
    succeeded: false,
    reason: `it cannot be started: ${reason}`,
    ...(field === undefined ? {} : { field }),
  })
  // spawn names the command also if the working directory is wrong.
  if (workingDirectory !== undefined) {
    const problem = directoryProblem(workingDirectory)
    if (problem !== undefined)
      return failure(`its workingDir ${workingDirectory} ${problem}`, 'workingDir')
  }
  const code = codeOf(error)
  if (code === 'ENOENT' && !file.includes('/'))
    return failure(`its command ${file} does not exist in PATH`, 'command[0]')
  if (code === 'ENOENT' && existsSync(path.resolve(workingDirectory ?? '', file)))
    return failure(`the interpreter that its command ${file} names does not exist`, 'command[0]')
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return failure(`its command ${file} does not exist`, 'command[0]')
  if (code === 'EACCES')
    return failure(`its command ${file} is no program, or may not be run`, 'command[0]')
  return failure(messageOf(error))
}

function directoryProblem(directory: string): string | undefined {
  try {
    const found = statSync(directory, { throwIfNoEntry: false })
    if (found === undefined) return 'does not exist'
    return found.isDirectory() ? undefined : 'is not a directory'
  } catch (error) {
    return `cannot be entered: ${messageOf(error)}`
  }
}
