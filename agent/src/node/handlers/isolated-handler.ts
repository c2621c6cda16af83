import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { Backoff, type Clock, type Logger, messageOf, runAfter, splitLines } from '@akrijs/runtime'
import { type HandlerPackage, HandlerPackageError, packageDirectory } from '@akrijs/runtime/handler'
import { handlerEnvironment } from './handler-environment.js'

interface IsolatedHandlerOptions {
  readonly name: string
  /** The path of the program that serves the handler of a module. */
  readonly program: string
  /** The path of the handler's module. */
  readonly module: string
  /** The directory that handlers share with the agent. */
  readonly directory: string
  /** The names of further variables of the agent that the handler gets. */
  readonly variables: readonly string[]
  readonly clock: Clock
  readonly log: Logger
}

/** Between the end of a process and the next start, in milliseconds. */
const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** A process that ran so long resets the back-off, in milliseconds. */
const STABLE_MS = 60_000
/** Time from SIGTERM to SIGKILL, in milliseconds. */
const TERM_MS = 5000

/**
 * A handler in its own process, where its failures and leaks stay. It registers over its socket as
 * a sidecar does. It is started again when it ends, and ends with the agent, however the agent
 * ends.
 */
export class IsolatedHandler {
  readonly #options: IsolatedHandlerOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  #pid: number | undefined

  constructor(options: IsolatedHandlerOptions) {
    this.#options = options
    this.#running = this.#run()
  }

  /** The current process; undefined between two processes. */
  get pid(): number | undefined {
    return this.#pid
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock, log, name } = this.#options
    const backoff = new Backoff(BACKOFF)
    while (!this.#stop.signal.aborted) {
      const begun = clock.monotonicMs()
      const reason = await this.#once()
      if (this.#stop.signal.aborted) return
      if (clock.monotonicMs() - begun >= STABLE_MS) backoff.reset()
      const retryInMs = backoff.next()
      log.warn({ handler: name, reason, retryInMs }, 'isolated handler ended')
      await clock.sleep(retryInMs, this.#stop.signal).catch(() => undefined)
    }
  }

  /** Runs the process once. @returns how it ended */
  async #once(): Promise<string> {
    const { program, module, directory, variables, clock, log, name } = this.#options
    // A group of its own, so that a Ctrl-C that is meant for the agent does not end it first.
    // Nothing is written to its standard input, whose end tells it that this process is gone.
    const child = spawn(process.execPath, [program, '--until-stdin-ends', module], {
      env: handlerEnvironment(process.env, directory, variables),
      detached: true,
    })
    this.#pid = child.pid
    for (const stream of [child.stdout, child.stderr])
      splitLines(stream, (line) =>
        log.debug({ handler: name, line }, 'isolated handler wrote a line'),
      )
    const ended = new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(`it cannot be started: ${messageOf(error)}`))
      child.once('exit', (code, signal) =>
        resolve(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`),
      )
    })
    const deadline = new AbortController()
    const onStop = () => {
      child.kill('SIGTERM')
      runAfter(clock, TERM_MS, deadline.signal, () => void child.kill('SIGKILL'))
    }
    this.#stop.signal.addEventListener('abort', onStop, { once: true })
    if (this.#stop.signal.aborted) onStop()
    const end = await ended
    deadline.abort()
    this.#stop.signal.removeEventListener('abort', onStop)
    this.#pid = undefined
    return end
  }
}

/**
 * Runs each handler in a process of its own.
 * @param options.from a directory; the SDK, which serves the handlers, is resolved from there
 * @returns a function that ends all processes
 * @throws HandlerPackageError if there is no SDK
 */
export function runIsolated(
  handlers: readonly HandlerPackage[],
  {
    from,
    ...options
  }: { readonly from: string } & Pick<
    IsolatedHandlerOptions,
    'directory' | 'variables' | 'clock' | 'log'
  >,
): () => Promise<unknown> {
  const program = handlerProgram(from)
  const running = handlers.map(
    ({ name, module }) => new IsolatedHandler({ ...options, name, program, module }),
  )
  return () => Promise.all(running.map((handler) => handler.close()))
}

/** The program that serves the handler of a module. */
function handlerProgram(from: string): string {
  const directory = packageDirectory('@akrijs/sdk', from)
  const program = directory && path.join(directory, 'dist/akri-handler.js')
  if (program !== undefined && existsSync(program)) return program
  throw new HandlerPackageError(
    `@akrijs/sdk is not installed where ${from} can find it, and isolated handlers need it; ` +
      'run npm install @akrijs/sdk',
  )
}
