import { existsSync } from 'node:fs'
import path from 'node:path'
import { aborted, Backoff, type Clock, type Logger, messageOf } from '@akrijs/runtime'
import { PluginRefusedError } from '../errors.js'
import type { RegistrationProblem, WithdrawOptions } from '../instances/served-instance.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import type { AgentObserver } from '../report/observer.js'
import type { PluginServer } from './plugin-server.js'

interface PluginRegistrationOptions {
  readonly server: PluginServer
  readonly resourceName: string
  readonly kubelet: Kubelet
  readonly clock: Clock
  readonly log: Logger
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
  readonly #stop = new AbortController()
  /** Aborted when the plugin needs another socket. */
  #round = new AbortController()
  #running: Promise<void> = Promise.resolve()
  /** Time of the first of the failed attempts in a row. */
  #failingSince: number | undefined
  #problem: RegistrationProblem | undefined

  constructor(options: PluginRegistrationOptions) {
    this.#options = options
  }

  /** Why the kubelet does not have the resource. */
  get problem(): RegistrationProblem | undefined {
    return this.#problem
  }

  /**
   * Serves and registers. Resolves after the first attempt; further attempts follow while the
   * kubelet is away.
   */
  start(): Promise<void> {
    const { kubelet, log, server } = this.#options
    // The kubelet removes all sockets when it starts, and grpc-js does not bind again to an address
    // that it holds.
    kubelet.onRestart(() => this.#endRound(), this.#stop.signal)
    kubelet.onDirectoryRead((names) => {
      const { socket } = server
      // The socket may be younger than the listing of the directory.
      if (socket === undefined || names.has(path.basename(socket)) || existsSync(socket)) return
      log.warn({ socket }, 'socket of the device plugin was removed')
      this.#endRound()
    }, this.#stop.signal)
    return new Promise((resolve) => {
      this.#running = this.#keepRegistered(resolve)
    })
  }

  /** With a device that is gone, the kubelet has its ids as unhealthy from then on. */
  async stop({ isGone = false }: WithdrawOptions = {}): Promise<void> {
    this.#options.server.streams.end({ isGone })
    this.#follow(undefined)
    this.#stop.abort()
    this.#endRound()
    await this.#running
  }

  #endRound(): void {
    this.#round.abort()
    this.#options.server.streams.wake()
  }

  async #keepRegistered(onFirstAttempt: () => void): Promise<void> {
    const { clock, server } = this.#options
    const { streams } = server
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
          // The kubelet offers nothing of a plugin without a stream, until the plugin registers
          // again.
          if (await this.#isRead(level, signal)) {
            while (streams.size > 0 && !signal.aborted) await aborted(streams.changed)
            backoff = new Backoff()
          }
          level = 'debug'
        }
        await clock.sleep(backoff.next(), signal).catch(() => undefined)
        // The kubelet may have taken a registration whose answer came too late.
        if (streams.size > 0) this.#follow(undefined)
        isRegistered = streams.size > 0 || (await this.#register(level, signal))
      }
    }
    await server.close()
  }

  /**
   * Waits for the kubelet that has accepted the registration. @param level the level at which its
   * absence is logged @returns whether it reads the list
   */
  async #isRead(level: 'warn' | 'debug', signal: AbortSignal): Promise<boolean> {
    const { clock, log, server } = this.#options
    const { streams } = server
    if (streams.size === 0 && !signal.aborted)
      await clock.sleep(FIRST_READ_MS, streams.changed).catch(() => undefined)
    if (streams.size === 0 && !signal.aborted)
      log[level]({}, 'the kubelet has registered the device plugin, and does not read its list')
    return streams.size > 0
  }

  /**
   * One attempt at what is still to be done. @param level the level at which a refusal of the
   * kubelet is logged
   */
  async #register(level: 'warn' | 'debug', signal: AbortSignal): Promise<boolean> {
    const { kubelet, log, observer, resourceName, server } = this.#options
    if (signal.aborted) return false
    let socket: string | undefined
    try {
      socket = await server.listen(kubelet.pluginDirectory)
      await kubelet.register(resourceName, path.basename(socket), signal)
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
    const now = this.#options.clock.monotonicMs()
    this.#failingSince = error === undefined ? undefined : (this.#failingSince ?? now)
    const { resourceName } = this.#options
    const isRefused = PluginRefusedError.is(error)
    if (this.#failingSince === undefined) this.#setProblem(undefined)
    else if (isRefused || now - this.#failingSince >= AWAY_MS)
      this.#setProblem({ resourceName, isRefused, message: messageOf(error) })
  }

  #setProblem(problem: RegistrationProblem | undefined): void {
    // A plugin that is being stopped may still try.
    if (problem?.message === this.#problem?.message || this.#stop.signal.aborted) return
    this.#problem = problem
    this.#options.onProblem()
  }
}
