import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { Backoff, type Clock, type Logger, messageOf } from '@akrijs/runtime'
import { KubeletUnavailableError, PluginRefusedError } from '../errors.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import type { AgentObserver } from '../report/observer.js'
import type { ContainerAllocation } from './allocation.js'
import { ListStreams } from './list-streams.js'
import type { PluginBehaviour } from './plugin-behaviour.js'
import { PluginListener } from './plugin-listener.js'
import type { PluginCalls } from './plugin-service.js'
import { pluginSocket } from './plugin-socket.js'

interface PluginServerOptions {
  readonly behaviour: PluginBehaviour
  readonly kubelet: Kubelet
  readonly clock: Clock
  readonly log: Logger
  readonly observer: AgentObserver
  /** Called after each attempt to register. @param problem undefined after a success */
  onRegistration(problem: RegistrationProblem | undefined): void
}

/** Between attempts to serve and to register, in milliseconds. */
const BACKOFF = { initialMs: 500, ceilingMs: 5000 }

/** A kubelet that restarts is away for seconds: that is no problem, in milliseconds. */
const AWAY_MS = 10_000

/** The longest wait for the kubelet to read the end of a plugin, in milliseconds. */
const LAST_LIST_MS = 1000

/**
 * How long the kubelet may take to read the list after it has accepted a plugin, in milliseconds.
 * The kubelet stops after 10 s, and only the log of the kubelet says so.
 */
const FIRST_READ_MS = 15_000

/**
 * One device plugin of either level: serves on its own socket and stays registered with the
 * kubelet.
 */
export class DevicePluginServer {
  readonly #options: PluginServerOptions
  readonly #streams = new ListStreams()
  readonly #stop = new AbortController()
  /** Aborted when the plugin needs another socket. */
  #round = new AbortController()
  #serving: PluginListener | undefined
  #running: Promise<void> = Promise.resolve()
  /** Time of the first of the failed attempts in a row. */
  #failingSince: number | undefined

  constructor(options: PluginServerOptions) {
    this.#options = options
  }

  /**
   * Serves and registers. Resolves after the first attempt; further attempts follow while the
   * kubelet is away.
   */
  start(): Promise<void> {
    const { kubelet, log } = this.#options
    // The kubelet removes all sockets when it starts, and grpc-js does not bind again to an address
    // that it holds.
    kubelet.onRestart(() => this.#round.abort(), this.#stop.signal)
    kubelet.onDirectoryRead((names) => {
      const { socket } = this
      // The socket may be younger than the listing of the directory.
      if (socket === undefined || names.has(path.basename(socket)) || existsSync(socket)) return
      log.warn({ socket }, 'socket of the device plugin was removed')
      this.#round.abort()
    }, this.#stop.signal)
    return new Promise((resolve) => {
      this.#running = this.#keepRegistered(resolve)
    })
  }

  /** The path of the socket; undefined while the plugin is not served. */
  get socket(): string | undefined {
    return this.#serving?.socket
  }

  /** Sends the device list to the kubelet if it has changed. */
  readvertise(options: { readonly repeat?: boolean } = {}): void {
    if (this.#streams.size > 0) this.#streams.send(this.#options.behaviour.advertise(), options)
  }

  /** @param isGone whether the devices are gone: the kubelet has them as unhealthy from then on */
  async stop({ isGone = false } = {}): Promise<void> {
    this.#streams.end({ isGone })
    this.#stop.abort()
    this.#round.abort()
    await this.#running
  }

  async #keepRegistered(onFirstAttempt: () => void): Promise<void> {
    const { clock } = this.#options
    while (!this.#stop.signal.aborted) {
      this.#round = new AbortController()
      const { signal } = this.#round
      await this.#endServing()
      let backoff = new Backoff(BACKOFF)
      let level: 'warn' | 'debug' = 'warn'
      let isRegistered = await this.#serveAndRegister(level, signal)
      onFirstAttempt()
      while (!signal.aborted) {
        if (isRegistered) {
          // The kubelet offers nothing of a plugin without a stream, until the plugin registers
          // again.
          if (await this.#isRead(level, signal)) {
            await this.#streams.left(signal)
            backoff = new Backoff()
          }
          level = 'debug'
        }
        await clock.sleep(backoff.next(), signal).catch(() => undefined)
        // The kubelet may have taken a registration whose answer came too late.
        if (this.#streams.size > 0) this.#registered()
        isRegistered = this.#streams.size > 0 || (await this.#serveAndRegister(level, signal))
      }
    }
    await this.#endServing()
  }

  /**
   * Waits for the kubelet that has accepted the registration. @param level the level at which its
   * absence is logged @returns whether it reads the list
   */
  async #isRead(level: 'warn' | 'debug', signal: AbortSignal): Promise<boolean> {
    const { clock, log } = this.#options
    if (signal.aborted) return false
    const limit = new AbortController()
    const end = () => limit.abort()
    signal.addEventListener('abort', end)
    const waiting = clock.sleep(FIRST_READ_MS, limit.signal).then(end, () => undefined)
    const isRead = await this.#streams.opened(limit.signal)
    end()
    signal.removeEventListener('abort', end)
    await waiting
    if (!isRead && !signal.aborted)
      log[level]({}, 'the kubelet has registered the device plugin, and does not read its list')
    return isRead
  }

  /**
   * One attempt at what is still to be done. @param level the level at which a refusal of the
   * kubelet is logged
   */
  async #serveAndRegister(level: 'warn' | 'debug', signal: AbortSignal): Promise<boolean> {
    const { behaviour, kubelet, log, observer } = this.#options
    if (signal.aborted) return false
    try {
      this.#serving ??= await this.#serve()
    } catch (error) {
      log.warn({ err: error }, 'device plugin not served')
      observer.failed('RegistrationFailed', error)
      this.#notRegistered(error)
      return false
    }
    try {
      const registration = {
        resourceName: behaviour.resourceName,
        socketName: path.basename(this.#serving.socket),
      }
      await kubelet.register(registration, signal)
      observer.registered('accepted')
      this.#registered()
      log.debug({}, 'device plugin registered')
      return true
    } catch (error) {
      // The plugin ends, or needs another socket.
      if (signal.aborted) return false
      observer.registered('failed')
      log[level]({ err: error }, 'registration with the kubelet failed')
      observer.failed('RegistrationFailed', error)
      this.#notRegistered(error)
      return false
    }
  }

  #registered(): void {
    this.#failingSince = undefined
    this.#options.onRegistration(undefined)
  }

  #notRegistered(error: unknown): void {
    const { behaviour, clock, onRegistration } = this.#options
    const now = clock.monotonicMs()
    this.#failingSince ??= now
    const isRefused = PluginRefusedError.is(error)
    if (!isRefused && now - this.#failingSince < AWAY_MS) return
    onRegistration({ resourceName: behaviour.resourceName, isRefused, message: messageOf(error) })
  }

  #serve(): Promise<PluginListener> {
    const { behaviour, kubelet } = this.#options
    const socket = pluginSocket(kubelet.pluginDirectory, behaviour.resourceName)
    const calls: PluginCalls = {
      behaviour,
      allocate: (ids) => this.#allocate(ids),
      watch: (call) => {
        this.#streams.open(call)
        this.readvertise()
      },
    }
    return PluginListener.listen(socket, calls).catch((error: unknown) => {
      const message = `cannot listen on ${socket}: ${messageOf(error)}`
      throw new KubeletUnavailableError(message, { cause: error })
    })
  }

  async #allocate(ids: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]> {
    const { behaviour, log, observer } = this.#options
    let repeat = false
    try {
      const allocations = await behaviour.allocate(ids)
      observer.allocated(behaviour.level, 'granted')
      log.info({ ids }, 'allocated')
      return allocations
    } catch (error) {
      observer.allocated(behaviour.level, 'refused')
      log.warn({ ids, err: error }, 'allocation refused')
      // A kubelet whose request was refused needs the list again, changed or not.
      repeat = true
      throw error
    } finally {
      this.readvertise({ repeat })
      // The list is sent before the answer: the kubelet may admit the next Pod right after the
      // answer.
      await setImmediate()
    }
  }

  /** A kubelet that does not read its list must not delay the other plugins for long. */
  async #endServing(): Promise<void> {
    const serving = this.#serving
    this.#serving = undefined
    this.#streams.end()
    if (serving === undefined) return
    const limit = new AbortController()
    const limited = this.#options.clock.sleep(LAST_LIST_MS, limit.signal).then(
      () => serving.destroy(),
      () => undefined,
    )
    await serving.close()
    limit.abort()
    await limited
    await rm(serving.socket, { force: true }).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'socket of the device plugin not removed'),
    )
  }
}
