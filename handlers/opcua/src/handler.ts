import {
  type Clock,
  type DiscoveryHandler,
  defineDiscoveryHandler,
  fitIntoList,
  systemClock,
} from '@akrijs/sdk'
import {
  atLeastEvery,
  FairQueue,
  HostNames,
  type Network,
  ProblemLog,
  passesFilter,
  type ResolveHostName,
} from '@akrijs/sdk/network'
import { type OpcuaDetails, opcuaDetails } from './details.js'
import { describeServer } from './device-description.js'
import { withoutDuplicates } from './duplicate-servers.js'
import { shownUrl } from './endpoint-url.js'
import { distinct } from './find-servers/discovery-url.js'
import { findServersMethod } from './find-servers/find-servers-method.js'
import { browseServers } from './mdns/browse.js'
import { mdnsMethod } from './mdns/mdns-method.js'
import type { ApplicationIdentity, OpcuaServer, ServerLists } from './opcua-server.js'
import { Reach } from './reach.js'
import { ServerDescriptions } from './server-descriptions.js'
import { ServerSessions } from './session/server-sessions.js'
import type { CallOptions } from './ua-tcp/client.js'

/** The handler calls no more servers than this. */
const MAX_SERVERS = 1000
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
}: OpcuaHandlerOptions = {}): DiscoveryHandler<OpcuaDetails> {
  const sessionQueue = new FairQueue({ atOnce: MAX_SESSIONS, perKey: 1 })
  return defineDiscoveryHandler({
    name: 'opcua',
    shared: true,
    details: opcuaDetails,
    async *discover({ details, properties, signal, log }) {
      const hostNames = new HostNames({ clock, signal }, { resolve: options.resolve })
      const { allowedNetworks, applicationNames } = details
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
      for await (const list of serverLists()) {
        const candidates = await reach.withinAllowedNetworks(distinct(list).filter(mayPassFilter))
        if (candidates.length > MAX_SERVERS) {
          const counts = { found: candidates.length, limit: MAX_SERVERS }
          problems.report('servers', counts, 'servers over the limit left out')
        } else problems.resolve('servers')
        const servers = candidates.slice(0, MAX_SERVERS)
        await descriptions.update(servers, signal)
        const unique = await withoutDuplicates(
          servers,
          (server) => applicationOf(server)?.applicationUri,
          reach.addressesOf,
        )
        const identified = unique.flatMap((server) => {
          const application = applicationOf(server)
          return application !== undefined && passes(application) ? [{ server, application }] : []
        })
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
        yield devices
      }

      function passes({ applicationName }: ApplicationIdentity): boolean {
        return passesFilter(applicationNames, applicationName)
      }

      function mayPassFilter({ application }: OpcuaServer): boolean {
        return application === undefined || passes(application)
      }

      /** Undefined for an announced server that has not answered: it may not be a server at all. */
      function applicationOf(server: OpcuaServer): ApplicationIdentity | undefined {
        return server.application ?? descriptions.of(server)?.application
      }

      function serverLists(): ServerLists {
        const { standard } = details.opcuaDiscoveryMethod
        if (standard === undefined) return announcedServers()
        for (const { url, problem } of standard.ignoredUrls)
          log.warn({ discoveryUrl: shownUrl(url), problem }, 'discovery URL ignored')
        const { discoveryUrls } = standard
        if (discoveryUrls.length === 0) log.warn({}, 'discovery started without discovery URLs')
        return findServersMethod({ ...methodOptions, discoveryUrls, interval })
      }

      function announcedServers(): ServerLists {
        const lists = browseServers({ log, signal, clock, allowedNetworks })
        const announced = atLeastEvery(lists, interval, { signal, clock })
        return mdnsMethod({ ...methodOptions, announced, reach })
      }
    },
  })
}
