import { setImmediate as turn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Device, DiscoveryProperties, type Logger, silentLogger } from '@akrijs/sdk'
import { followDiscovery, type ReportedList } from '@akrijs/sdk/host'
import type { Network } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach } from 'vitest'
import { DISCOVERY_SERVER, endpoint, SimulatedServer } from '../../test-peers/simulated-server.js'
import { createOpcuaHandler, type OpcuaHandlerOptions } from '../handler.js'

const ROUND_MS = 10_000
/** The time limit for a host name, in milliseconds. */
export const NAME_MS = 3000

export let clock: ManualClock
/** The clock of the time limits of calls. Only calls that get no answer let its time pass. */
let calls: ManualClock
/** Longer than all calls of a round take on any machine, in milliseconds. */
const TOTAL_MS = 600_000
export const timeouts = () => ({ clock: calls, totalMs: TOTAL_MS })
export let stop: AbortController
const servers: SimulatedServer[] = []

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  calls = new ManualClock(1_000_000)
  stop = new AbortController()
})

afterEach(async () => {
  stop.abort()
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

/** Ends the running discoveries, but not later ones. */
export function endRounds(): void {
  stop.abort()
  stop = new AbortController()
}

export async function start(
  options: Parameters<typeof SimulatedServer.start>[0] = {},
): Promise<SimulatedServer> {
  const server = await SimulatedServer.start(options)
  servers.push(server)
  return server
}

/** Starts a discovery server that lists these servers. */
export async function discoveryServer(
  ...listed: readonly SimulatedServer[]
): Promise<SimulatedServer> {
  const lds = await start()
  list(lds, listed)
  return lds
}

export function list(lds: SimulatedServer, listed: readonly SimulatedServer[]): void {
  lds.applications = [DISCOVERY_SERVER, ...listed.flatMap(({ applications }) => applications)]
  lds.endpoints = [endpoint(DISCOVERY_SERVER)]
}

export const standard = (discoveryUrls: readonly string[], more: object = {}) => ({
  opcuaDiscoveryMethod: { standard: { discoveryUrls } },
  ...more,
})

/** A discovery whose rounds a test controls. */
export class Rounds {
  readonly lists: Device[][] = []
  /** Id and reason of each device that the handler left out of the last list. */
  leftOut: (readonly [id: string, reason: string])[] = []
  leftOutChanges = 0
  /** Of the last list. */
  remarks: readonly string[] = []
  readonly logged: {
    readonly level: string
    readonly message: string
    readonly fields: Readonly<Record<string, unknown>>
  }[] = []
  readonly ended: Promise<void>

  constructor(details: object, options: Partial<OpcuaHandlerOptions> = {}) {
    const ownNetworks = (): Network[] => []
    const handler = createOpcuaHandler({
      clock,
      ownNetworks,
      timeouts: timeouts(),
      ...options,
    })
    const properties = new DiscoveryProperties()
    this.ended = this.#collect(
      followDiscovery(handler, {
        details: JSON.stringify(details),
        properties,
        signal: stop.signal,
        log: this.#logger({}),
      }),
    )
    // Some tests await the end.
    this.ended.catch(() => {})
  }

  /** Waits for the end of the current round. */
  async first(): Promise<Device[] | undefined> {
    await untilRoundIsOver()
    return this.lists.at(-1)
  }

  async next(): Promise<Device[] | undefined> {
    await untilRoundIsOver()
    await clock.advance(ROUND_MS)
    return this.first()
  }

  async #collect(lists: AsyncIterable<ReportedList>): Promise<void> {
    let last: ReportedList | undefined
    for await (const list of lists) {
      if (list.devices !== last?.devices) this.lists.push(list.devices)
      if (!isDeepStrictEqual(list.leftOut, last?.leftOut ?? { devices: [], reasons: new Map() }))
        this.leftOutChanges++
      this.leftOut = list.leftOut.devices.map(({ id, reason }) => [id, reason])
      this.remarks = list.remarks
      last = list
    }
  }

  #logger(bound: Readonly<Record<string, unknown>>): Logger {
    const log = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) => {
      this.logged.push({ level, message, fields: { ...bound, ...fields } })
    }
    return {
      ...silentLogger,
      info: log('info'),
      warn: log('warn'),
      error: log('error'),
      child: (fields) => this.#logger({ ...bound, ...fields }),
    }
  }
}

/**
 * A wait for the next round is longer than a wait for a name, or zero after the clock passed the
 * round.
 */
async function untilRoundIsOver(): Promise<void> {
  const { signal } = stop
  const isOver = () => clock.sleeping.some((ms) => ms === 0 || ms > NAME_MS)
  while (!signal.aborted && !isOver()) await endSilentCalls()
}

/** Ends all calls by their time limits, if no other calls are under way. */
export async function endSilentCalls(): Promise<void> {
  await turn()
  const silent = servers.flatMap(({ unanswered }) => [...unanswered])
  // A call has two limits. A round waits with one more.
  if (silent.length === 0 || Math.floor(calls.sleeping.length / 2) !== silent.length) return
  await calls.advance(TOTAL_MS)
  while (silent.some((socket) => !socket.closed)) await turn()
}

export const ids = (devices: readonly Device[] = []) => devices.map(({ id }) => id)
