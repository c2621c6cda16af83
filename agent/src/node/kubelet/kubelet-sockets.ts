import { type FSWatcher, watch } from 'node:fs'
import { lstat, mkdir, readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { type Empty, RegistrationClient } from '@akrijs/proto/device-plugin'
import { type Clock, isServed, Listeners, type Logger, messageOf } from '@akrijs/runtime'
import { KubeletUnavailableError } from '../../errors.js'
import type { Allocations, Kubelet, NodePods, PluginRegistration } from '../../ports/kubelet.js'
import { isPluginSocket } from '../device-plugins/plugin-socket.js'
import type { AllocationSource } from './allocation-source.js'
import { LocalService } from './local-service.js'
import { PodResources } from './pod-resources.js'

interface KubeletSocketsOptions {
  /** @default '/var/lib/kubelet/device-plugins' */
  readonly pluginDirectory?: string
  /** @default '/var/lib/kubelet/pod-resources/kubelet.sock' */
  readonly podResourcesSocket?: string
  /** @default the podresources service of the kubelet */
  readonly allocations?: AllocationSource
  /** @default Pods are not watched */
  readonly pods?: NodePods
  readonly clock: Clock
  readonly log: Logger
}

/**
 * How often the kubelet's socket is checked in case that the watch misses a change, in
 * milliseconds.
 */
const POLL_MS = 2000

/** The kubelet behind its sockets. */
export class KubeletSockets implements Kubelet {
  readonly pluginDirectory: string
  readonly pods: NodePods | undefined
  readonly #allocations: AllocationSource
  readonly #registration: LocalService<RegistrationClient>
  readonly #options: KubeletSocketsOptions
  readonly #restartListeners = new Listeners()
  readonly #lookListeners = new Listeners<[names: ReadonlySet<string>]>()
  readonly #stop = new AbortController()
  #watching: Promise<void> | undefined

  constructor(options: KubeletSocketsOptions) {
    this.#options = options
    this.pods = options.pods
    this.pluginDirectory = options.pluginDirectory ?? '/var/lib/kubelet/device-plugins'
    this.#registration = new LocalService(RegistrationClient, this.#kubeletSocket)
    this.#allocations =
      options.allocations ??
      new PodResources(options.podResourcesSocket ?? '/var/lib/kubelet/pod-resources/kubelet.sock')
  }

  get #kubeletSocket(): string {
    return path.join(this.pluginDirectory, 'kubelet.sock')
  }

  /** Removes the sockets of an agent that died, and watches for restarts of the kubelet. */
  async open(): Promise<void> {
    await mkdir(this.pluginDirectory, { recursive: true })
    for (const name of await readdir(this.pluginDirectory)) {
      if (!isPluginSocket(name)) continue
      const socket = path.join(this.pluginDirectory, name)
      // During an upgrade the agent before may still serve.
      const found = await lstat(socket).catch(() => undefined)
      if (found?.isSocket() === true && !(await isServed(socket))) await rm(socket, { force: true })
    }
    this.#watching = this.#watch(await this.#identity())
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#watching
  }

  async register(
    { resourceName, socketName, preferredAllocation }: PluginRegistration,
    signal: AbortSignal,
  ): Promise<void> {
    const options = {
      preStartRequired: false,
      getPreferredAllocationAvailable: preferredAllocation,
    }
    const request = { version: 'v1beta1', endpoint: socketName, resourceName, options }
    try {
      await this.#registration.ask<Empty>(signal, (client, metadata, call, done) =>
        client.register(request, metadata, call, done),
      )
    } catch (error) {
      throw new KubeletUnavailableError(
        `the kubelet did not take ${resourceName}: ${messageOf(error)}`,
        { cause: error },
      )
    }
  }

  listAllocated(signal: AbortSignal): Promise<Allocations> {
    return this.#allocations.list(signal)
  }

  onRestart(listener: () => void, signal: AbortSignal): void {
    this.#restartListeners.add(listener, signal)
  }

  onDirectoryRead(listener: (names: ReadonlySet<string>) => void, signal: AbortSignal): void {
    this.#lookListeners.add(listener, signal)
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
    const { clock, log } = this.#options
    let identity = first
    let look = new AbortController()
    let watcher: FSWatcher | undefined
    this.#stop.signal.addEventListener('abort', () => look.abort(), { once: true })
    while (!this.#stop.signal.aborted) {
      watcher ??= this.#watchDirectory(
        () => look.abort(),
        () => {
          watcher = undefined
        },
      )
      await clock.sleep(POLL_MS, look.signal).catch(() => undefined)
      if (this.#stop.signal.aborted) break
      look = new AbortController()
      const now = await this.#identity()
      if (now === undefined) continue
      if (now === identity) {
        const names = await readdir(this.pluginDirectory).catch(() => undefined)
        if (names !== undefined) this.#lookListeners.tell(new Set(names))
        continue
      }
      // No plugin was registered before the first socket, and plugins retry until then.
      if (identity !== undefined) {
        log.info({}, 'kubelet restarted')
        this.#restartListeners.tell()
      }
      identity = now
    }
    watcher?.close()
  }

  /** @returns undefined if the directory cannot be watched: polling is enough then */
  #watchDirectory(onSocket: () => void, onEnd: () => void): FSWatcher | undefined {
    try {
      const watcher = watch(this.pluginDirectory, { persistent: false }, (_event, name) => {
        if (name === 'kubelet.sock') onSocket()
      })
      watcher.on('error', () => {
        watcher.close()
        onEnd()
      })
      return watcher
    } catch (error) {
      this.#options.log.debug({ err: error }, 'kubelet directory not watched')
      return undefined
    }
  }
}
