import { AkriError, type Logger } from '@akrijs/sdk'
import { OpcuaServiceError } from '../errors.js'
import type { OpcuaServer } from '../opcua-server.js'
import {
  type CallOptions,
  callService,
  findServersOnNetwork,
  isUnsupported,
  type ServerOnNetwork,
  type Target,
} from '../ua-tcp/index.js'

/** The longest wait for a service that keeps failing, in rounds: 5 minutes. */
const MAX_ROUNDS_TO_WAIT = 30
/** Rounds without an answer after which records count as old. */
const ROUNDS_OF_SILENCE = 2

/**
 * The records of servers that a discovery server received by mDNS. Most servers do not have this
 * service, and some close the connection, or do not answer. A failure proves nothing about the
 * records before.
 */
export class NetworkRecords {
  readonly #log: Logger
  #records: readonly ServerOnNetwork[] = []
  #lacksService = false
  #failures = 0
  #roundsToWait = 0
  #roundsOfSilence = 0
  /** The code of the last error; undefined after an answer. */
  #errorCode: string | undefined

  constructor(log: Logger) {
    this.#log = log
  }

  /** Whether the service failed for some rounds: a server in the records may have ended. */
  get areOld(): boolean {
    return this.#roundsOfSilence > ROUNDS_OF_SILENCE
  }

  /**
   * The records of the last answer. Calls the service, or waits after failures. Rejects only when
   * the signal is aborted.
   */
  async round(target: Target, options: CallOptions): Promise<readonly ServerOnNetwork[]> {
    if (this.#lacksService) return []
    this.#roundsOfSilence++
    this.#roundsToWait--
    if (this.#roundsToWait <= 0) await this.#tryCall(target, options)
    return this.#records
  }

  /** Forgets the records of these servers. */
  forget(servers: readonly OpcuaServer[]): void {
    const urls = new Set(servers.map(({ discoveryUrl }) => discoveryUrl))
    this.#records = this.#records.filter(({ discoveryUrl }) => !urls.has(discoveryUrl))
  }

  /** Forgets everything: another server may answer at the URL. */
  reset(): void {
    this.#records = []
    this.#lacksService = false
    this.#failures = 0
    this.#roundsToWait = 0
    this.#roundsOfSilence = 0
    this.#errorCode = undefined
  }

  async #tryCall(target: Target, options: CallOptions): Promise<void> {
    try {
      this.#records = await callService(findServersOnNetwork, target, options)
      if (this.#errorCode !== undefined) this.#log.info({}, 'FindServersOnNetwork answered again')
      this.#failures = 0
      this.#roundsOfSilence = 0
      this.#errorCode = undefined
    } catch (error) {
      options.signal.throwIfAborted()
      if (!AkriError.is(error)) throw error
      this.#lacksService = error instanceof OpcuaServiceError && isUnsupported(error.statusCode)
      if (this.#lacksService) {
        this.#records = []
        this.#log.debug({ err: error }, 'FindServersOnNetwork not supported')
        return
      }
      this.#roundsToWait = Math.min(MAX_ROUNDS_TO_WAIT, 2 ** this.#failures)
      this.#failures++
      // One line for each kind of failure, not for each round.
      if (error.code !== this.#errorCode)
        this.#log.info({ err: error }, 'FindServersOnNetwork failed')
      this.#errorCode = error.code
    }
  }
}
