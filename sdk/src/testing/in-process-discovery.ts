import {
  aborted,
  type Clock,
  type Logger,
  runAfter,
  runWithClock,
  silentLogger,
  systemClock,
  toLimit,
  untilAborted,
} from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { followDiscovery, type ReportedList } from '../discovery.js'
import { HandlerFailedError } from '../errors.js'
import type { Device } from '../handler/device.js'
import { InvalidHandlerError } from '../handler/errors.js'
import {
  type DeviceReport,
  type DiscoveryHandler,
  isDiscoveryHandler,
  type ReportedDevice,
} from '../handler/handler.js'
import { DiscoveryProperties } from '../handler/properties.js'
import { deviceReports } from '../reported-devices.js'
import { closedByTest, DiscoveryEndedError, SimulatedAgentError } from './errors.js'
import { ListQueue, WAIT_MS } from './list-queue.js'

/** A handler that yields more without a pause would fill the memory of its test. */
const MAX_PENDING = 1000

/** Options of {@link discover}. */
export interface InProcessOptions {
  /** Texts, or properties with bytes or without a value. @default {} */
  readonly properties?: Readonly<Record<string, string>> | DiscoveryProperties
  /**
   * The clock of `every`, `withTimeLimit`, `deviceMap` and `currentClock` in the handler. With a
   * `ManualClock`, time passes only by `clock.advance`. Timers of Node.js keep their own time.
   * @default systemClock
   */
  readonly clock?: Clock
  /** Takes the log lines of the handler. @default silentLogger */
  readonly log?: Logger
}

/**
 * Runs a handler in this process, without sockets, as an agent does: validates the details, checks
 * each list, and skips a list that equals the list before.
 *
 * @param details the text of `discoveryDetails`, or the value that the text stands for. @default ''
 * @throws InvalidHandlerError if the handler is not the result of `defineDiscoveryHandler`
 *
 * @example
 * const clock = new ManualClock()
 * await using session = discover(handler, { url: 'http://localhost:8080' }, { clock })
 * expect(await session.next()).toMatchObject([{ id: 'hall' }])
 * hub.emit('death', 'hall')
 * await clock.advance(10_000)
 * expect(await session.next()).toEqual([])
 */
export function discover(
  handler: DiscoveryHandler,
  details: unknown = '',
  options: InProcessOptions = {},
): InProcessDiscovery {
  if (!isDiscoveryHandler(handler))
    throw new InvalidHandlerError('the handler is not the result of defineDiscoveryHandler')
  const text = typeof details === 'string' ? details : JSON.stringify(details)
  return new InProcessDiscovery(handler, text, options)
}

/**
 * A discovery by {@link discover}. Keeps the lists until {@link next} returns them.
 *
 * @example
 * await using session = discover(handler)
 * for await (const devices of session) log.info({ devices: devices.length }, 'a list')
 */
export class InProcessDiscovery implements AsyncIterable<Required<Device>[]> {
  readonly #handler: DiscoveryHandler
  readonly #clock: Clock
  readonly #lists = new ListQueue<ReportedList>()
  readonly #stop = new AbortController()
  readonly #followed: Promise<void>
  #isCalled = false
  /** Aborted when the called handler has ended. */
  readonly #handlerEnd = new AbortController()
  #last: ReportedList | undefined

  /** @internal */
  constructor(
    handler: DiscoveryHandler,
    details: string,
    { properties = {}, clock = systemClock, log = silentLogger }: InProcessOptions,
  ) {
    this.#handler = handler
    this.#clock = clock
    const request = {
      details,
      properties:
        properties instanceof DiscoveryProperties
          ? properties
          : DiscoveryProperties.fromTexts(properties),
      signal: this.#stop.signal,
      log,
    }
    // A test that failed may leave the discovery open: it must not keep the process running.
    const background: Clock = {
      monotonicMs: () => clock.monotonicMs(),
      wallMs: () => clock.wallMs(),
      sleep: (ms, stop) => clock.sleep(ms, stop, { ref: false }),
    }
    this.#followed = runWithClock(background, () => this.#follow(request))
  }

  /** The number of lists that wait for {@link next}. */
  get pending(): number {
    return this.#lists.length
  }

  /** As the agent gets them with the list that {@link next} returned last. */
  get reports(): readonly DeviceReport[] {
    return this.#last === undefined ? [] : deviceReports(this.#last)
  }

  /** The devices that the handler left out of the list that {@link next} returned last. */
  get leftOut(): readonly ReportedDevice[] {
    return this.#last?.leftOut.devices ?? []
  }

  /** The devices with a problem in the list that {@link next} returned last. */
  get problems(): readonly ReportedDevice[] {
    return this.#last?.problems.devices ?? []
  }

  /** The remarks with the list that {@link next} returned last. */
  get remarks(): readonly string[] {
    return this.#last?.remarks ?? []
  }

  /**
   * Waits for the next list, with all optional members of its devices. The same devices come again
   * with other reports.
   * @param withinMs the longest wait, in milliseconds of real time, or `Infinity` @default 10000
   * @throws what the handler threw: the same error, with its stack
   * @throws InvalidDetailsError, InvalidDeviceListError as an agent shows them
   * @throws DiscoveryEndedError after the handler returned (`OK`) or {@link close} (`CANCELLED`)
   * @throws AkriError (`AKRI_ERR_SIMULATED_AGENT`) if no list comes in time
   */
  async next(withinMs = WAIT_MS): Promise<Required<Device>[]> {
    const list = await this.#lists.next(withinMs, () => this.#hint())
    this.#last = list
    return [...list.devices]
  }

  /** All lists until the handler returns. The end of the loop closes the discovery. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Required<Device>[], void, void> {
    try {
      for (;;) yield await this.next()
    } catch (error) {
      if (!(error instanceof DiscoveryEndedError)) throw error
    } finally {
      await this.close()
    }
  }

  /**
   * Aborts the signal of the handler, as the agent does when the Configuration is deleted, and
   * waits until the handler has ended.
   * @param withinMs the longest wait, in milliseconds of real time, or `Infinity` @default 10000
   * @throws AkriError (`AKRI_ERR_SIMULATED_AGENT`) if the handler goes on
   */
  async close(withinMs = WAIT_MS): Promise<void> {
    const ms = toLimit(withinMs)
    this.#lists.end(closedByTest)
    this.#stop.abort()
    await this.#followed
    if (!this.#isCalled) return
    const over = new AbortController()
    const late = new AbortController()
    runAfter(systemClock, ms, over.signal, () => late.abort())
    await untilAborted(aborted(this.#handlerEnd.signal), late.signal)
    over.abort()
    if (this.#handlerEnd.signal.aborted) return
    throw new SimulatedAgentError(
      `handler ${this.#handler.name} goes on ${ms} ms after its signal was aborted`,
    )
  }

  /** For `await using`: {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #follow(request: Parameters<typeof followDiscovery>[1]): Promise<void> {
    try {
      for await (const list of followDiscovery(this.#observed(), request)) {
        this.#lists.push(list)
        if (this.#lists.length > MAX_PENDING)
          throw new SimulatedAgentError(
            `more than ${MAX_PENDING} lists wait: handler ${this.#handler.name} yields changed ` +
              'lists without a pause, such as a round of `every`',
          )
      }
    } catch (error) {
      this.#lists.end(() => (error instanceof HandlerFailedError ? error.cause : error))
    }
  }

  /** The handler; its end is noted, because an agent keeps the discovery open then. */
  #observed(): DiscoveryHandler {
    const handler = this.#handler
    const begin = () => {
      this.#isCalled = true
    }
    const returned = () =>
      new DiscoveryEndedError('OK', 'the handler has returned; its last list stays')
    const [lists, handlerEnd] = [this.#lists, this.#handlerEnd]
    return {
      ...handler,
      async *discover(context) {
        begin()
        let hasList = false
        try {
          for await (const list of handler.discover(context)) {
            hasList = true
            yield list
          }
          if (!hasList) yield []
          lists.end(returned)
        } finally {
          handlerEnd.abort()
        }
      },
    }
  }

  #hint(): string {
    const [ms] = this.#clock instanceof ManualClock ? this.#clock.sleeping : []
    return ms === undefined
      ? ''
      : `; the handler sleeps for ${ms} ms of its clock: call \`clock.advance(${ms})\``
  }
}
