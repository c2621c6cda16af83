import { existsSync } from 'node:fs'
import path from 'node:path'
import { aborted, Backoff, messageOf } from '@akrijs/runtime'
import { PluginRefusedError } from '../errors.js'
import type { RegistrationProblem, WithdrawOptions } from '../instances/served-instance.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import type { AgentObserver } from '../report/observer.js'
import { PluginServer, type PluginServerOptions } from './plugin-server.js'

interface PluginRegistrationOptions extends PluginServerOptions {
  readonly kubelet: Kubelet
  readonly observer: AgentObserver
  /** Called after a change of the problem. */
  onProblem(): void
}

/** Between attempts to serve and to register, in milliseconds. */
const BACKOFF = { initialMs: 500, ceilingMs: 5000 }

/** A kubelet that restarts is away for seconds: that is no problem, in milliseconds. */
const AWAY_MS = 10_000

/**
 * How long the kubelet may take to read the list after it has accepted a plugin, in milliseconds.
 * The kubelet stops after 10 s, and only the log of the kubelet says so.
 */
const FIRST_READ_MS = 15_000

/** Keeps one device plugin of either level served, and registered with the kubelet. */
export class PluginRegistration {
  readonly #options: PluginRegistrationOptions
  readonly #server: PluginServer
  readonly #stop = new AbortController()
  /** Aborted when the plugin needs another socket. */
  #round = new AbortController()
  #running: Promise<void> = Promise.resolve()
  /** Resolves after the first attempt; further attempts follow while the kubelet is away. */
  readonly started: Promise<void>
  /** Time of the first of the failed attempts in a row. */
  #failingSince: number | undefined
  /** Why the kubelet does not have the resource. */
  problem: RegistrationProblem | undefined

  constructor(options: PluginRegistrationOptions) {
    const { kubelet, log } = options
    this.#options = options
    this.#server = new PluginServer(options)
    // The kubelet removes all sockets when it starts, and grpc-js does not bind again to an address
    // that it holds.
    kubelet.onRestart(() => this.#endRound(), this.#stop.signal)
    kubelet.onDirectoryRead((names) => {
      const { socket } = this
      // The socket may be younger than the listing of the directory.
      if (socket === undefined || names.has(path.basename(socket)) || existsSync(socket)) return
      log.warn({ socket }, 'socket of the device plugin was removed')
      this.#endRound()
    }, this.#stop.signal)
    this.started = new Promise((resolve) => {
      this.#running = this.#keepRegistered(resolve)
    })
  }

  /** The path of the socket; undefined while the plugin is not served. */
  get socket(): string | undefined {
    return this.#server.socket
  }

  /** Sends the device list to the kubelet soon, if it has changed. */
  readvertise(): void {
    this.#server.readvertise()
  }

  /** With a device that is gone, the kubelet has its ids as unhealthy from then on. */
  async stop(options?: WithdrawOptions): Promise<void> {
    this.#server.end(options)
    this.#follow(undefined)
    this.#stop.abort()
    this.#endRound()
    await this.#running
  }

  #endRound(): void {
    this.#round.abort()
    this.#server.wake()
  }

  async #keepRegistered(onFirstAttempt: () => void): Promise<void> {
    const { clock, log } = this.#options
    const server = this.#server
    while (!this.#stop.signal.aborted) {
      this.#round = new AbortController()
      const { signal } = this.#round
      await server.close()
      let backoff = new Backoff(BACKOFF)
      let level: 'warn' | 'debug' = 'warn'
      let isRegistered = await this.#register(level, signal)
      onFirstAttempt()
      while (!signal.aborted) {
        if (isRegistered) {
          if (!server.isRead)
            await clock.sleep(FIRST_READ_MS, server.changed).catch(() => undefined)
          if (server.isRead) backoff = new Backoff()
          else if (!signal.aborted)
            log[level](
              {},
              'the kubelet has registered the device plugin, and does not read its list',
            )
          level = 'debug'
          // The kubelet offers nothing of a plugin without a stream, until the plugin registers
          // again.
          while (server.isRead && !signal.aborted) await aborted(server.changed)
        }
        await clock.sleep(backoff.next(), signal).catch(() => undefined)
        // The kubelet may have taken a registration whose answer came too late.
        if (server.isRead) this.#follow(undefined)
        isRegistered = server.isRead || (await this.#register(level, signal))
      }
    }
    await server.close()
  }

  /** One attempt. @param level the level at which a refusal of the kubelet is logged */
  async #register(level: 'warn' | 'debug', signal: AbortSignal): Promise<boolean> {
    const { kubelet, log, observer, resource } = this.#options
    if (signal.aborted) return false
    let socket: string | undefined
    try {
      socket = await this.#server.listen(kubelet.pluginDirectory)
      await kubelet.register(resource.name, path.basename(socket), signal)
      observer.registered('accepted')
      this.#follow(undefined)
      log.debug({}, 'device plugin registered')
      return true
    } catch (error) {
      if (socket === undefined) log.warn({ err: error }, 'device plugin not served')
      else {
        // The plugin ends, or needs another socket.
        if (signal.aborted) return false
        observer.registered('failed')
        log[level]({ err: error }, 'registration with the kubelet failed')
      }
      observer.failed('RegistrationFailed', error)
      this.#follow(error)
      return false
    }
  }

  /** @param error the failure of the last attempt; undefined after a success */
  #follow(error: unknown): void {
    const { clock, resource, onProblem } = this.#options
    const now = clock.monotonicMs()
    this.#failingSince = error === undefined ? undefined : (this.#failingSince ?? now)
    const isRefused = PluginRefusedError.is(error)
    const isAway = this.#failingSince !== undefined && now - this.#failingSince >= AWAY_MS
    // A failure does not end the problem of another failure.
    if (error !== undefined && !isRefused && !isAway) return
    const message = error === undefined ? undefined : messageOf(error)
    // A plugin that is being stopped may still try.
    if (message === this.problem?.message || this.#stop.signal.aborted) return
    this.problem =
      message === undefined ? undefined : { resourceName: resource.name, isRefused, message }
    onProblem()
  }
}
