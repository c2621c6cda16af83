import { type FSWatcher, watch } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { RegistrationService } from '@akrijs/proto/device-plugin'
import { type Clock, isServed, Listeners, type Logger } from '@akrijs/runtime'
import { KubeletGoneError, PluginRefusedError } from '../errors.js'
import { isPluginSocket, PLUGIN_OPTIONS } from '../plugins/plugin-server.js'
import { type AllocationSource, podResources } from './allocation-sources.js'
import type { Kubelet, NodePods } from './kubelet.js'
import { isAnswerOfServer, LocalService } from './local-service.js'

interface KubeletSocketsOptions {
  readonly pluginDirectory: string
  readonly podResourcesSocket: string
  /** @default the podresources service of the kubelet */
  readonly allocations?: AllocationSource | undefined
  /** @default Pods are not watched */
  readonly pods?: NodePods
  readonly clock: Clock
  readonly log: Logger
}

/**
 * How often the directory and the kubelet's socket are checked, in milliseconds. A watch shows a
 * change of that socket at once.
 */
const POLL_MS = 5000
/** How long the kubelet's socket may refuse connections, in milliseconds. */
const REFUSED_MS = 60_000

/** The kubelet behind its sockets. */
export class KubeletSockets implements Kubelet {
  readonly pluginDirectory: string
  readonly pods: NodePods | undefined
  readonly #kubeletSocket: string
  readonly listAllocated: AllocationSource
  readonly #registration: LocalService
  readonly #options: KubeletSocketsOptions
  readonly #restartListeners = new Listeners()
  readonly #directoryListeners = new Listeners<[names: ReadonlySet<string>]>()
  readonly #stop = new AbortController()
  #watching: Promise<void> = Promise.resolve()
  #watcher: FSWatcher | undefined
  /** Why the kubelet cannot be reached for now; undefined if it can. */
  problem: string | undefined
  /** Resolves when only another agent can reach the kubelet. */
  readonly gone: Promise<KubeletGoneError>
  #giveUp: (error: KubeletGoneError) => void = () => {}
  #refusedSinceMs: number | undefined
  /** Whether the directory could not be watched: the log has the reason, once. */
  #isPolled = false
  /** Aborted when the socket may have changed. */
  #changed = new AbortController()

  constructor(options: KubeletSocketsOptions) {
    this.#options = options
    this.pods = options.pods
    this.pluginDirectory = options.pluginDirectory
    this.#kubeletSocket = path.join(this.pluginDirectory, 'kubelet.sock')
    this.#registration = new LocalService(this.#kubeletSocket)
    this.listAllocated = options.allocations ?? podResources(options.podResourcesSocket)
    this.gone = new Promise((resolve) => {
      this.#giveUp = resolve
    })
  }

  /** Removes the sockets of an agent that died, and watches for restarts of the kubelet. */
  async open(): Promise<void> {
    await mkdir(this.pluginDirectory, { recursive: true })
    for (const entry of await readdir(this.pluginDirectory, { withFileTypes: true })) {
      if (!isPluginSocket(entry.name) || !entry.isSocket()) continue
      const socket = path.join(this.pluginDirectory, entry.name)
      // During an upgrade the agent before may still serve.
      if (!(await isServed(socket))) await rm(socket, { force: true })
    }
    this.#watchDirectory()
    this.#watching = this.#watch(await this.#identity())
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#changed.abort()
    await this.#watching
  }

  async register(resourceName: string, endpoint: string, signal: AbortSignal): Promise<void> {
    const request = { version: 'v1beta1', endpoint, resourceName, options: PLUGIN_OPTIONS }
    const failure = `the kubelet did not take ${resourceName}`
    try {
      await this.#registration.ask(failure, RegistrationService.register, request, signal)
    } catch (error) {
      const isAnswer = error instanceof Error && isAnswerOfServer(error.cause)
      throw isAnswer ? new PluginRefusedError(error.message, { cause: error.cause }) : error
    }
  }

  onRestart(listener: () => void, signal: AbortSignal): void {
    this.#restartListeners.add(listener, signal)
  }

  onDirectoryRead(listener: (names: ReadonlySet<string>) => void, signal: AbortSignal): void {
    this.#directoryListeners.add(listener, signal)
  }

  /**
   * A kubelet that restarts recreates its socket. An inode number can be reused, so the change time
   * counts too.
   */
  async #identity(): Promise<string | undefined> {
    const found = await stat(this.#kubeletSocket).catch(() => undefined)
    return found && `${found.ino} ${found.ctimeMs}`
  }

  async #watch(first: string | undefined): Promise<void> {
    let identity = first
    while (!this.#stop.signal.aborted) {
      this.#watchDirectory()
      await this.#options.clock.sleep(POLL_MS, this.#changed.signal).catch(() => undefined)
      if (this.#stop.signal.aborted) break
      this.#changed = new AbortController()
      let now = await this.#identity()
      if (now !== identity) {
        // The directory may be another one too.
        this.#endWatch()
        this.#watchDirectory()
        // The socket may have changed while nothing was watched.
        now = await this.#identity()
      }
      await this.#lookForProblem(now !== undefined)
      if (now === undefined) continue
      if (now === identity) {
        const names = await readdir(this.pluginDirectory).catch(() => undefined)
        if (names !== undefined) this.#directoryListeners.tell(new Set(names))
      } else if (identity !== undefined) {
        // No plugin was registered before the first socket, and plugins retry until then.
        this.#options.log.info({}, 'kubelet restarted')
        this.#restartListeners.tell()
      }
      identity = now
    }
    this.#endWatch()
  }

  /**
   * A container keeps the directory that it was mounted, also after another one has replaced it on
   * the node: the old one has no links then, or an old socket without a process.
   */
  async #lookForProblem(hasSocket: boolean): Promise<void> {
    const now = this.#options.clock.monotonicMs()
    const found = await stat(this.pluginDirectory).catch(() => undefined)
    const isRefused = hasSocket && !(await isServed(this.#kubeletSocket))
    this.#refusedSinceMs = isRefused ? (this.#refusedSinceMs ?? now) : undefined
    const isReplaced = found?.nlink === 0
    this.problem = isRefused ? `${this.#kubeletSocket} refuses connections` : undefined
    if (isReplaced) this.problem = `${this.pluginDirectory} was deleted or replaced on the node`
    if (isReplaced || now - (this.#refusedSinceMs ?? now) >= REFUSED_MS)
      this.#giveUp(new KubeletGoneError(`${this.problem}; a new agent looks for the kubelet again`))
  }

  /** Another program of the node can have used up all watches that the kernel grants to root. */
  #watchDirectory(): void {
    if (this.#watcher !== undefined) return
    try {
      this.#watcher = watch(this.pluginDirectory, { persistent: false }, (_event, name) => {
        if (name === 'kubelet.sock') this.#changed.abort()
      })
      this.#watcher.on('error', () => this.#endWatch())
      this.#isPolled = false
    } catch (error) {
      if (this.#isPolled) return
      this.#isPolled = true
      const { log } = this.#options
      log.warn({ err: error, pollMs: POLL_MS }, 'kubelet directory not watched, and polled instead')
    }
  }

  #endWatch(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }
}
