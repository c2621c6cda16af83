import { execFile, spawn } from 'node:child_process'
import { once, setMaxListeners } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import {
  Backoff,
  type Clock,
  fieldOf,
  type Logger,
  messageOf,
  runAfter,
  splitLines,
  systemClock,
  valueAt,
} from '@akrijs/runtime'
import {
  type HandlerPackage,
  HandlerPackageError,
  isHandlerName,
  MODULE_LOAD_MS,
  packageDirectory,
  type ReadHandlerName,
} from '@akrijs/sdk/handler'
import { IsolatedOutput, MAX_HANDLER_LINE } from './isolated-output.js'

interface IsolatedHandlerOptions {
  readonly name: string
  /** The path of the program that serves the handler of a module. */
  readonly program: string
  readonly module: string
  /** The directory that handlers share with the agent. */
  readonly directory: string
  /** The names of further variables of the agent that the handler gets. */
  readonly variables: readonly string[]
  /** Of the lines that the handler logs. */
  readonly logLevel: string
  readonly clock: Clock
  readonly log: Logger
}

/** Between the end of a process and the next start, in milliseconds. */
const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** A process that ran so long resets the back-off, in milliseconds. */
const STABLE_MS = 60_000
/** The longest reason that is taken from the log of a handler, in characters. */
const MAX_REASON = 2000
/** Time from SIGTERM to SIGKILL, in milliseconds. */
const TERM_MS = 5000
/** Time for the last lines of a process that ended, in milliseconds. */
const LAST_LINES_MS = 1000

/** Variables of the agent that a handler in a process of its own gets. None of them is a secret. */
const PASSED_ON = [
  // For programs that a handler starts, and for texts and times.
  ...['PATH', 'TMPDIR', 'LANG', 'LC_ALL', 'TZ'],
  // For Node.js: the memory limit of the container, and the authorities of certificates.
  ...['NODE_ENV', 'NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS'],
  // For akri-handler, and for the handler debugEcho.
  ...['LOG_LEVEL', 'DEBUG_ECHO_AVAILABILITY_FILE', 'DEBUG_ECHO_INSTANCES_SHARED'],
]

/** Variables that would make the handler serve on the network, or on the port of the agent. */
const WITHHELD = ['POD_IP', 'METRICS_PORT']

/**
 * Runs a handler in its own process, again after each end. It registers over its socket as a
 * sidecar does, and ends with the signal, or with the agent, however the agent ends.
 */
export async function keepRunning(
  options: IsolatedHandlerOptions,
  signal: AbortSignal,
): Promise<void> {
  const { name, clock } = options
  const log = options.log.child({ handler: name })
  const output = new IsolatedOutput(log, clock)
  const backoff = new Backoff(BACKOFF)
  while (!signal.aborted) {
    const begun = clock.monotonicMs()
    const reason = await runOnce(options, output, signal).catch(
      (error: unknown) => `it cannot be started: ${messageOf(error)}`,
    )
    const lastLines = output.takeLast()
    if (signal.aborted) return
    if (clock.monotonicMs() - begun >= STABLE_MS) backoff.reset()
    const retryInMs = backoff.next()
    log.warn({ reason, lastLines, retryInMs }, 'isolated handler ended')
    await clock.sleep(retryInMs, signal).catch(() => undefined)
  }
}

/** Runs the process once. @returns how it ended */
async function runOnce(
  { program, module, directory, variables, logLevel, clock }: IsolatedHandlerOptions,
  output: IsolatedOutput,
  signal: AbortSignal,
): Promise<string> {
  // A group of its own, so that a Ctrl-C that is meant for the agent does not end it first.
  // Nothing is written to its standard input, whose end tells it that this process is gone.
  const child = spawn(process.execPath, [program, '--until-stdin-ends', module], {
    env: { ...handlerEnvironment(directory, variables), LOG_LEVEL: logLevel },
    detached: true,
  })
  const over = new AbortController()
  child.once('close', () => over.abort())
  // A process has no pipes if this process has no file descriptors left.
  const relay = (stream: NodeJS.ReadableStream | null, level: 'info' | 'warn') =>
    stream && splitLines(stream, (line) => output.take(line, level), MAX_HANDLER_LINE)
  relay(child.stdout, 'info')
  relay(child.stderr, 'warn')
  const onStop = () => {
    child.kill('SIGTERM')
    runAfter(clock, TERM_MS, over.signal, () => void child.kill('SIGKILL'))
  }
  signal.addEventListener('abort', onStop, { once: true, signal: over.signal })
  try {
    await once(child, 'exit')
    // A process that the handler started can hold the pipes for longer. The kernel's pipes do not
    // follow the clock of a test.
    await systemClock.sleep(LAST_LINES_MS, over.signal).catch(() => undefined)
  } finally {
    over.abort()
  }
  const { exitCode, signalCode } = child
  return signalCode === null ? `it exited with code ${exitCode}` : `it was ended by ${signalCode}`
}

interface Isolation extends Pick<IsolatedHandlerOptions, 'directory' | 'variables'> {
  /** A directory: the SDK, which serves the handlers, is resolved from there. */
  readonly from: string
}

/**
 * Runs each handler in a process of its own.
 * @returns a function that ends all processes
 * @throws HandlerPackageError if there is no SDK
 */
export function runIsolated(
  handlers: readonly HandlerPackage[],
  options: Isolation & Pick<IsolatedHandlerOptions, 'logLevel' | 'clock' | 'log'>,
): () => Promise<unknown> {
  const program = handlerProgram(options.from)
  const stop = new AbortController()
  // A listener for each process.
  setMaxListeners(0, stop.signal)
  const running = handlers.map(({ name, module }) =>
    keepRunning({ ...options, name, program, module }, stop.signal),
  )
  return () => {
    stop.abort()
    return Promise.all(running)
  }
}

/** Reads names of handlers in processes of their own: no code of a handler runs in this one. */
export function isolatedNames({ from, directory, variables }: Isolation): ReadHandlerName {
  return async (module) => {
    const args = [handlerProgram(from), '--until-stdin-ends', '--print-names', module]
    const output = await promisify(execFile)(process.execPath, args, {
      env: handlerEnvironment(directory, variables),
      timeout: MODULE_LOAD_MS,
      killSignal: 'SIGKILL',
    }).catch((error: unknown) => {
      throw new HandlerPackageError(loadFailure(module, error), { cause: error })
    })
    const name = valueAt(readJson(output.stdout), 0)
    if (isHandlerName(name)) return name
    throw new HandlerPackageError(`${module} cannot be loaded: its process printed no name`)
  }
}

/** The last line of the log of akri-handler has the reason. */
function loadFailure(module: string, error: unknown): string {
  const log = fieldOf(error, 'stderr')
  const [last = ''] = typeof log === 'string' ? log.trimEnd().split('\n').slice(-1) : []
  const reason = valueAt(readJson(last), 'err', 'message')
  if (typeof reason === 'string') return reason.slice(0, MAX_REASON)
  const how =
    fieldOf(error, 'killed') === true
      ? `it has not been loaded after ${MODULE_LOAD_MS / 1000} s`
      : messageOf(error)
  return `${module} cannot be loaded: ${how}`
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function handlerProgram(from: string): string {
  const directory = packageDirectory('@akrijs/sdk', from)
  const program = directory && path.join(directory, 'dist/akri-handler.js')
  if (program !== undefined && existsSync(program)) return program
  throw new HandlerPackageError(
    `@akrijs/sdk is not installed where ${from} can find it, and isolated handlers need it; ` +
      'run npm install @akrijs/sdk',
  )
}

/**
 * The environment of a handler in a process of its own. The environment of the agent can hold
 * credentials of the Pod or of the user, which are no concern of a handler.
 * @param names further variables, which the operator names
 */
function handlerEnvironment(directory: string, names: readonly string[]): Record<string, string> {
  const passedOn = [...PASSED_ON, ...names].flatMap((name): [string, string][] => {
    const value = process.env[name]
    return value === undefined || WITHHELD.includes(name) ? [] : [[name, value]]
  })
  return { ...Object.fromEntries(passedOn), DISCOVERY_HANDLERS_DIRECTORY: directory }
}
