import { type ChildProcess, fork } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fieldOf, runAfter, systemClock } from '@akrijs/runtime'
import type { DiscoveryProcessRequest } from './discovery-messages.js'

const PROGRAM = path.join(import.meta.dirname, 'discovery-process.js')
/** Time from SIGTERM to SIGKILL, in milliseconds. */
const TERM_MS = 2000
/** The longest failure that is shown, in characters. */
const MAX_FAILURE = 10_000

interface DiscoveryListeners {
  onList(text: string): void
  /** Takes each file that the process loads, or misses. */
  onFile(file: string): void
}

interface DiscoverySurroundings {
  /** Where the handler's own output goes. @default standard error of this process */
  readonly output?: 'ignore'
  /** The names of the variables that it gets. @default all of this process */
  readonly variables?: readonly string[]
}

/** A process with a handler. */
export class DiscoveryProcess {
  /** Resolves when the process has ended, with the reason. */
  readonly ended: Promise<string>
  readonly #child: ChildProcess
  #failure: string | undefined

  constructor(
    request: DiscoveryProcessRequest,
    { onList, onFile }: DiscoveryListeners,
    { output, variables }: DiscoverySurroundings = {},
  ) {
    const names = variables ?? Object.keys(process.env)
    const environment = Object.fromEntries(names.map((name) => [name, process.env[name]]))
    const child = fork(PROGRAM, [], {
      // Node.js reports what it loads to its parent, for `node --watch`.
      env: { ...environment, WATCH_REPORT_DEPENDENCIES: '1' },
      // The process ends with its standard input. The output of a handler is no list.
      stdio: ['pipe', output ?? 2, output ?? 2, 'ipc'],
      serialization: 'advanced',
    })
    this.#child = child
    // The code of the author runs in that process, and can send anything.
    child.on('message', (message: unknown) => {
      const [list, failure] = [fieldOf(message, 'list'), fieldOf(message, 'failure')]
      if (typeof list === 'string') onList(list)
      if (typeof failure === 'string') this.#failure ??= failure.slice(0, MAX_FAILURE)
      for (const file of loadedFiles(message)) onFile(file)
    })
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => resolve(`akri: the handler cannot be started: ${error}`))
      child.once('close', (code, signal) => {
        const how = signal === null ? `with code ${code}` : `by ${signal}`
        resolve(this.#failure ?? `akri: the process of the handler ended ${how}`)
      })
    })
    child.send(request, () => {})
  }

  /** Ends the process at once. */
  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** Ends the process in order, or by force after a while. */
  async close(): Promise<void> {
    const over = new AbortController()
    this.#child.kill('SIGTERM')
    runAfter(systemClock, TERM_MS, over.signal, () => this.kill())
    await this.ended
    over.abort()
  }
}

function loadedFiles(message: unknown): string[] {
  const missing = fieldOf(message, 'missing')
  const reported = [
    ...(typeof missing === 'string' ? [missing] : []),
    ...[fieldOf(message, 'watch:import'), fieldOf(message, 'watch:require')].flatMap((list) =>
      Array.isArray(list) ? list : [],
    ),
  ]
  return reported.flatMap((name: unknown) => {
    if (typeof name !== 'string') return []
    const file = name.startsWith('file://') ? pathOf(name) : name
    const isOwn = file?.startsWith(import.meta.dirname + path.sep)
    return file !== undefined && path.isAbsolute(file) && !isOwn ? [file] : []
  })
}

function pathOf(url: string): string | undefined {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}
