import {
  type Clock,
  defineDiscoveryHandler,
  fitIntoList,
  messageOf,
  type ReportedDevice,
  systemClock,
} from '@akrijs/sdk'
import {
  atLeastEvery,
  FairQueue,
  HostNames,
  MulticastSearch,
  type Network,
  ProblemLog,
  passesFilter,
  type ResolveHostName,
} from '@akrijs/sdk/network'
import { detailsWarnings, INCLUDES_NOTHING, includesNothing, opcuaDetails } from './details.js'
import { describeServer } from './device-description.js'
import { distinct } from './distinct-servers.js'
import { withoutDuplicates, withoutNames } from './duplicate-servers.js'
import { shownUrl } from './endpoint-url.js'
import { findServersMethod } from './find-servers/find-servers-method.js'
import { absentApplications, applicationOf, type EndpointsAnswer } from './identified-server.js'
import { type LeftOutApplication, reasonOf, withDistinctIds } from './left-out-reason.js'
import { browseServers, FIRST_LIST_MS } from './mdns/browse.js'
import { mdnsMethod } from './mdns/mdns-method.js'
import { MDNS_PORT } from './mdns/multicast-socket.js'
import type { ApplicationIdentity, OpcuaServer, ServerLists } from './opcua-server.js'
import { Reach } from './reach.js'
import { ServerDescriptions } from './server-descriptions.js'
import { ServerSessions } from './session/server-sessions.js'
import type { CallOptions } from './ua-tcp/client.js'

/** The handler calls no more servers than this. */
const MAX_SERVERS = 1000
const NO_URLS = 'there are no discovery URLs: name some in opcuaDiscoveryMethod.standard'
const FILTERED = 'filtered by applicationNames'
/** Open sessions of all Configurations together. */
const MAX_SESSIONS = 4

/** For tests: other times, or another view of the network. */
export interface OpcuaHandlerOptions {
  /** @default systemClock */
  readonly clock?: Clock
  /** How often the handler calls discovery URLs, in milliseconds or as a text. @default '10s' */
  readonly interval?: number | string
  /** Resolves host names. @default the resolver of the system */
  readonly resolve?: ResolveHostName
  /** The networks of this machine. @default those of its interfaces */
  readonly ownNetworks?: () => readonly Network[]
  /** Time limits of a service call. @default 3 s to connect, 5 s in total */
  readonly timeouts?: Pick<CallOptions, 'connectMs' | 'totalMs'>
}

/** A handler that finds OPC UA servers by discovery URLs or by multicast DNS. */
export function createOpcuaHandler({
  clock = systemClock,
  interval = '10s',
  ...options
}: OpcuaHandlerOptions = {}) {
  const sessionQueue = new FairQueue({ atOnce: MAX_SESSIONS, perKey: 1 })
  return defineDiscoveryHandler({
    name: 'opcua',
    shared: true,
    details: opcuaDetails,
    warnings: detailsWarnings,
    async *discover({ details, properties, signal, log, leaveOut, reportProblem, remark }) {
      const hostNames = new HostNames({ clock, signal }, { resolve: options.resolve })
      const { allowedNetworks, applicationNames } = details
      if (includesNothing(applicationNames))
        log.warn({ field: 'applicationNames', problem: INCLUDES_NOTHING }, 'details questionable')
      const reach = new Reach({ allowedNetworks, hostNames, ownNetworks: options.ownNetworks })
      const descriptions = new ServerDescriptions({ reach, clock, log, timeouts: options.timeouts })
      const sessions = details.serverDetails
        ? await ServerSessions.open({
            ...details,
            properties,
            queue: sessionQueue,
            targetOf: (server) => reach.targetOf(server),
            clock,
            log,
            ...options,
          })
        : undefined
      const methodOptions = {
        ...options,
        hostNames,
        recentlyAnswered: (servers: readonly OpcuaServer[], until: AbortSignal) =>
          descriptions.recentlyAnswered(servers.filter(mayPassFilter), until),
        responsive: (servers: readonly OpcuaServer[], until: AbortSignal) =>
          descriptions.responsive(servers.filter(mayPassFilter), until),
        log,
        signal,
        clock,
      }
      const problems = new ProblemLog(log)
      const search = new MulticastSearch({
        messages: `mDNS queries for _opcua-tcp (UDP port ${MDNS_PORT})`,
        waitMs: FIRST_LIST_MS,
        clock,
      })
      for await (const { servers: listed, leftOut: unusable } of serverLists()) {
        const known = distinct(listed)
        const named = known.filter(mayPassFilter)
        const candidates = await reach.withinAllowedNetworks(named)
        report(known, named, FILTERED)
        for (const server of without(named, candidates)) {
          const problem = await reach.problemOf(server)
          leaveOut(shownUrl(server.discoveryUrl), reasonOf(problem), messageOf(problem))
        }
        if (candidates.length > MAX_SERVERS) {
          const counts = { found: candidates.length, limit: MAX_SERVERS }
          problems.report('servers', counts, 'servers over the limit left out')
        } else problems.resolve('servers')
        const servers = candidates.slice(0, MAX_SERVERS)
        report(candidates, servers, `more than ${MAX_SERVERS} servers`)
        await descriptions.update(servers, signal)
        const unique = await withoutDuplicates(
          withoutNames(servers),
          (server) => identityOf(server)?.applicationUri,
          reach.addressesOf,
        )
        const absent: LeftOutApplication[] = []
        const identified = unique.flatMap((server) => {
          const application = identityOf(server)
          absent.push(...absentApplications(server, answerOf(server)))
          if (application === undefined) return []
          if (passes(application)) return [{ server, application }]
          report([server], [], FILTERED)
          return []
        })
        for (const { id, reason, detail } of withDistinctIds(absent)) leaveOut(id, reason, detail)
        report(servers, unique, 'listed with another URL')
        await sessions?.update(identified, signal)
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
          problems.report('list', counts, 'servers left out of a full device list')
        } else problems.resolve('list')
        const offered = new Set(devices.map(({ id }) => id))
        for (const { id, reason, detail } of [...unusable, ...ignoredUrls()])
          if (!offered.has(id)) leaveOut(id, reason, detail)
        for (const { server } of identified)
          if (!offered.has(server.discoveryUrl)) report([server], [], 'device list full')
        for (const {
          id,
          properties: { OPCUA_SERVER_DETAILS, OPCUA_DEFAULT_CREDENTIAL } = {},
        } of devices)
          if ([OPCUA_SERVER_DETAILS, OPCUA_DEFAULT_CREDENTIAL].includes('credential-refused'))
            reportProblem(id, 'credential refused')
        if (devices.length === 0)
          for (const text of silence(listed.length === 0 && unusable.length === 0)) remark(text)
        yield devices
      }

      function silence(isUnanswered: boolean): readonly string[] {
        const { standard } = details.opcuaDiscoveryMethod
        if (standard === undefined) return search.remarks(isUnanswered)
        return standard.discoveryUrls.length === 0 ? [NO_URLS] : []
      }

      function report(
        before: readonly OpcuaServer[],
        after: readonly OpcuaServer[],
        reason: string,
      ): void {
        for (const server of without(before, after))
          leaveOut(shownUrl(server.discoveryUrl), reason, identityOf(server)?.applicationName)
      }

      function passes({ applicationName }: ApplicationIdentity): boolean {
        return passesFilter(applicationNames, applicationName)
      }

      function mayPassFilter({ application, isDisputed = false }: OpcuaServer): boolean {
        return application === undefined || isDisputed || passes(application)
      }

      function answerOf(server: OpcuaServer): EndpointsAnswer {
        const failure = descriptions.failureOf(server)
        return { endpoints: descriptions.of(server), failure }
      }

      function identityOf(server: OpcuaServer): ApplicationIdentity | undefined {
        return applicationOf(server, answerOf(server))
      }

      function serverLists(): ServerLists {
        const { standard } = details.opcuaDiscoveryMethod
        if (standard === undefined) return announcedServers()
        for (const { id, detail: problem } of ignoredUrls())
          log.warn({ discoveryUrl: id, problem }, 'discovery URL ignored')
        const { discoveryUrls } = standard
        if (discoveryUrls.length === 0) log.warn({}, 'discovery started without discovery URLs')
        return findServersMethod({ ...methodOptions, discoveryUrls, interval })
      }

      function ignoredUrls(): readonly ReportedDevice[] {
        const { ignoredUrls = [] } = details.opcuaDiscoveryMethod.standard ?? {}
        return ignoredUrls.map(({ url, problem }) => ({
          id: shownUrl(url),
          reason: 'unusable discovery URL',
          detail: problem,
        }))
      }

      function announcedServers(): ServerLists {
        const lists = browseServers({ log, signal, clock, allowedNetworks, search })
        const announced = atLeastEvery(lists, interval, { signal, clock })
        return mdnsMethod({ ...methodOptions, announced, reach })
      }
    },
  })
}

function without<T>(all: readonly T[], some: readonly T[]): T[] {
  const excluded = new Set(some)
  return all.filter((item) => !excluded.has(item))
}
