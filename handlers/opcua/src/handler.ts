import { browse, FIRST_LIST_MS, MDNS_PORT } from '@akrijs/dns-sd'
import { type Clock, defineDiscoveryHandler, type ReportedDevice, systemClock } from '@akrijs/sdk'
import {
  atLeastEvery,
  HostNames,
  MulticastSearch,
  type Network,
  type ResolveHostName,
} from '@akrijs/sdk/network'
import { filterWarnings } from '../../details-fields.js'
import { detailsWarnings, opcuaDetails } from './details.js'
import { shownUrl } from './endpoint-url.js'
import { findServersMethod } from './find-servers/find-servers-method.js'
import { mdnsMethod } from './mdns/mdns-method.js'
import { mdnsServers, SERVICE_TYPE, unusableServers } from './mdns/mdns-server.js'
import { OfferedServers } from './offered-servers.js'
import type { OpcuaServer, ServerLists } from './opcua-server.js'
import { Reach } from './reach.js'
import { ServerDescriptions } from './server-descriptions.js'
import { ServerSessions } from './session/server-sessions.js'
import { SessionPlaces } from './session/session-places.js'
import type { CallTimeouts } from './ua-tcp/index.js'

const NO_URLS = 'there are no discovery URLs: name some in opcuaDiscoveryMethod.standard'

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
  readonly timeouts?: CallTimeouts
}

/** A handler that finds OPC UA servers by discovery URLs or by multicast DNS. */
export function createOpcuaHandler({
  clock = systemClock,
  interval = '10s',
  ...options
}: OpcuaHandlerOptions = {}) {
  const sessionPlaces = new SessionPlaces()
  return defineDiscoveryHandler({
    name: 'opcua',
    shared: true,
    details: opcuaDetails,
    warnings: detailsWarnings,
    async *discover({ details, properties, signal, log, leaveOut, reportProblem, remark }) {
      const hostNames = new HostNames({ clock, signal }, { resolve: options.resolve })
      const { allowedNetworks, applicationNames } = details
      for (const { path, message } of filterWarnings('applicationNames', applicationNames))
        log.warn({ field: path, problem: message }, 'details questionable')
      const reach = new Reach({ allowedNetworks, hostNames, ownNetworks: options.ownNetworks })
      const descriptions = new ServerDescriptions({ reach, clock, log, timeouts: options.timeouts })
      const sessions = details.serverDetails
        ? await ServerSessions.open({
            ...details,
            properties,
            places: sessionPlaces,
            targetOf: (server) => reach.targetOf(server),
            clock,
            log,
            ...options,
          })
        : undefined
      const offeredServers = new OfferedServers({
        applicationNames,
        reach,
        descriptions,
        sessions,
        signal,
        log,
        leaveOut,
        reportProblem,
      })
      const mayPassFilter = (server: OpcuaServer) => offeredServers.mayPassFilter(server)
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
      const search = new MulticastSearch({
        messages: `mDNS queries for _opcua-tcp (UDP port ${MDNS_PORT})`,
        waitMs: FIRST_LIST_MS,
        clock,
      })
      let unusable: readonly ReportedDevice[] = []
      for await (const { servers, leftOut } of serverLists()) {
        const others = [...leftOut, ...unusable]
        const devices = await offeredServers.devices(servers, [...others, ...ignoredUrls()])
        if (devices.length === 0)
          for (const text of silence(servers.length === 0 && others.length === 0)) remark(text)
        yield devices
      }

      function silence(isUnanswered: boolean): readonly string[] {
        const { standard } = details.opcuaDiscoveryMethod
        if (standard === undefined) return search.remarks(isUnanswered)
        return standard.discoveryUrls.length === 0 ? [NO_URLS] : []
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
        const announced = atLeastEvery(browsed(), interval, { signal, clock })
        return mdnsMethod({ ...methodOptions, announced, reach })
      }

      async function* browsed() {
        const options = { log, signal, clock, allowedNetworks, search }
        for await (const list of browse([SERVICE_TYPE], options)) {
          unusable = unusableServers(list)
          yield mdnsServers(list)
        }
      }
    },
  })
}
