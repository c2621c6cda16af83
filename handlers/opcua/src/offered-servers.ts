import {
  type Device,
  type DiscoverContext,
  fitIntoList,
  messageOf,
  type ReportedDevice,
} from '@akrijs/sdk'
import { type FilterList, ProblemLog, passesFilter } from '@akrijs/sdk/network'
import { describeServer } from './device-description.js'
import { distinct } from './distinct-servers.js'
import { withoutDuplicates, withoutNames } from './duplicate-servers.js'
import { shownUrl } from './endpoint-url.js'
import { absentApplications, applicationOf, type EndpointsAnswer } from './identified-server.js'
import { type LeftOutApplication, reasonOf, withDistinctIds } from './left-out-reason.js'
import { MAX_SERVERS } from './limits.js'
import type { ApplicationIdentity, IdentifiedServer, OpcuaServer } from './opcua-server.js'
import type { Reach } from './reach.js'
import type { ServerDescriptions } from './server-descriptions.js'
import type { ServerSessions } from './session/server-sessions.js'

interface OfferedServersOptions
  extends Pick<DiscoverContext<unknown>, 'signal' | 'log' | 'leaveOut' | 'reportProblem'> {
  readonly applicationNames: FilterList | undefined
  readonly reach: Reach
  readonly descriptions: ServerDescriptions
  /** Undefined if the handler opens no sessions. */
  readonly sessions: ServerSessions | undefined
}

const FILTERED = 'filtered by applicationNames'

/** Makes the devices of a round from the servers that were found, and reports all others. */
export class OfferedServers {
  readonly #options: OfferedServersOptions
  readonly #problems: ProblemLog

  constructor(options: OfferedServersOptions) {
    this.#options = options
    this.#problems = new ProblemLog(options.log)
  }

  /** False if the filter excludes the server, whatever the server itself reports. */
  mayPassFilter({ application, rivals }: OpcuaServer): boolean {
    return application === undefined || rivals !== undefined || this.#passes(application)
  }

  /**
   * The device list of a round.
   * @param unusable what the discovery method left out; not reported if a device has its id
   */
  async devices(
    listed: readonly OpcuaServer[],
    unusable: readonly ReportedDevice[],
  ): Promise<Device[]> {
    const { descriptions, sessions, signal } = this.#options
    const servers = await this.#callableServers(listed)
    await descriptions.update(servers, signal)
    const identified = await this.#identifiedServers(servers)
    await sessions?.update(identified, signal)
    return this.#deviceList(identified, unusable)
  }

  /** The servers that the handler may call. */
  async #callableServers(listed: readonly OpcuaServer[]): Promise<OpcuaServer[]> {
    const { reach, leaveOut } = this.#options
    const distinctServers = distinct(listed)
    const named = distinctServers.filter((server) => this.mayPassFilter(server))
    const candidates = await reach.withinAllowedNetworks(named)
    this.#report(distinctServers, named, FILTERED)
    for (const server of without(named, candidates)) {
      const problem = await reach.problemOf(server)
      leaveOut(shownUrl(server.discoveryUrl), reasonOf(problem), messageOf(problem))
    }
    if (candidates.length > MAX_SERVERS) {
      const counts = { found: candidates.length, limit: MAX_SERVERS }
      this.#problems.report('servers', counts, 'servers over the limit left out')
    } else this.#problems.resolve('servers')
    const servers = candidates.slice(0, MAX_SERVERS)
    this.#report(candidates, servers, `more than ${MAX_SERVERS} servers`)
    return servers
  }

  /** The servers whose applications are known and pass the filter, each once. */
  async #identifiedServers(servers: readonly OpcuaServer[]): Promise<IdentifiedServer[]> {
    const { reach, leaveOut } = this.#options
    const unique = await withoutDuplicates(
      withoutNames(servers),
      (server) => this.#identityOf(server)?.applicationUri,
      reach.addressesOf,
    )
    const absent: LeftOutApplication[] = []
    const identified = unique.flatMap((server) => {
      const application = this.#identityOf(server)
      absent.push(...absentApplications(server, this.#answerOf(server)))
      if (application === undefined) return []
      if (this.#passes(application)) return [{ server, application }]
      this.#report([server], [], FILTERED)
      return []
    })
    for (const { id, reason, detail } of withDistinctIds(absent)) leaveOut(id, reason, detail)
    this.#report(servers, unique, 'listed with another URL')
    return identified
  }

  /** The devices for which the list has room. */
  #deviceList(
    identified: readonly IdentifiedServer[],
    unusable: readonly ReportedDevice[],
  ): Device[] {
    const { descriptions, sessions, leaveOut, reportProblem } = this.#options
    const { devices, leftOut } = fitIntoList(
      identified.map(({ server, application }) =>
        describeServer(server, application, {
          endpoints: descriptions.of(server),
          sessionProperties: sessions?.of(server),
        }),
      ),
    )
    if (leftOut > 0) {
      const counts = { offered: devices.length, leftOut }
      this.#problems.report('list', counts, 'servers left out of a full device list')
    } else this.#problems.resolve('list')
    const offeredIds = new Set(devices.map(({ id }) => id))
    for (const { id, reason, detail } of unusable)
      if (!offeredIds.has(id)) leaveOut(id, reason, detail)
    for (const { server } of identified)
      if (!offeredIds.has(server.discoveryUrl)) this.#report([server], [], 'device list full')
    for (const {
      id,
      properties: { OPCUA_SERVER_DETAILS, OPCUA_DEFAULT_CREDENTIAL } = {},
    } of devices)
      if ([OPCUA_SERVER_DETAILS, OPCUA_DEFAULT_CREDENTIAL].includes('credential-refused'))
        reportProblem(id, 'credential refused')
    return devices
  }

  #report(before: readonly OpcuaServer[], after: readonly OpcuaServer[], reason: string): void {
    for (const server of without(before, after)) {
      const name = this.#identityOf(server)?.applicationName
      this.#options.leaveOut(shownUrl(server.discoveryUrl), reason, name)
    }
  }

  #passes({ applicationName }: ApplicationIdentity): boolean {
    return passesFilter(this.#options.applicationNames, applicationName)
  }

  #answerOf(server: OpcuaServer): EndpointsAnswer {
    const { descriptions } = this.#options
    return { endpoints: descriptions.of(server), failure: descriptions.failureOf(server) }
  }

  #identityOf(server: OpcuaServer): ApplicationIdentity | undefined {
    return applicationOf(server, this.#answerOf(server))
  }
}

function without<T>(all: readonly T[], some: readonly T[]): T[] {
  const excluded = new Set(some)
  return all.filter((item) => !excluded.has(item))
}
