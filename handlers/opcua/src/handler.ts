import { type Clock, type DiscoveryHandler, defineDiscoveryHandler, fitIntoList } from '@akrijs/sdk'
import {
  atLeastEvery,
  FairQueue,
  HostNames,
  type Network,
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

/** More are not asked who they are. */
const MAX_SERVERS = 1000
/** Sessions at a time, of all Configurations. */
const MAX_SESSIONS = 4

export interface OpcuaHandlerOptions {
  readonly clock: Clock
  /** How often discovery URLs are asked, in milliseconds or as a text. @default '10s' */
  readonly interval?: number | string
  /** How host names become addresses. @default as the system does */
  readonly resolve?: ResolveHostName
  /** The networks that this machine is in. @default those of its interfaces */
  readonly ownNetworks?: () => readonly Network[]
  /** How long a question may take. @default 3 s to connect, 5 s in all */
  readonly timeouts?: Pick<CallOptions, 'connectMs' | 'totalMs'>
}

/** Finds OPC UA servers: those that discovery servers list, those that answer themselves, and those that announce themselves. */
export function defineOpcuaHandler({
  clock,
  interval = '10s',
  ...options
}: OpcuaHandlerOptions): DiscoveryHandler<OpcuaDetails> {
  const gate = new FairQueue({ atOnce: MAX_SESSIONS, perKey: 1 })
  return defineDiscoveryHandler({
    name: 'opcua',
    shared: true,
    details: opcuaDetails,
    async *discover({ details, properties, signal, log }) {
      const hostNames = new HostNames({ clock, resolve: options.resolve, signal })
      const { allowedNetworks, applicationNames } = details
      const reach = new Reach({ allowedNetworks, hostNames, ownNetworks: options.ownNetworks })
      const descriptions = new ServerDescriptions({ reach, clock, log, timeouts: options.timeouts })
      const sessions = details.serverDetails
        ? await ServerSessions.open({
            ...details,
            properties,
            gate,
            targetOf: (server) => reach.targetOf(server),
            clock,
            log,
            ...options,
          })
        : undefined
      let [tooMany, tooMuch] = [false, false]
      for await (const found of serverLists()) {
        const candidates = await reach.withinAllowedNetworks(distinct(found).filter(mayBeWanted))
        if (candidates.length > MAX_SERVERS && !tooMany) {
          log.warn(
            { found: candidates.length, limit: MAX_SERVERS },
            'too many servers were found, some are left out',
          )
        }
        tooMany = candidates.length > MAX_SERVERS
        const servers = candidates.slice(0, MAX_SERVERS)
        await descriptions.update(servers, signal)
        const once = await withoutDuplicates(
          servers,
          (server) => applicationOf(server)?.applicationUri,
          reach.addressesOf,
        )
        const wanted = once.flatMap((server) => {
          const application = applicationOf(server)
          return application !== undefined && isWanted(application) ? [{ server, application }] : []
        })
        await sessions?.update(wanted, signal)
        const { devices, leftOut } = fitIntoList(
          wanted.map(({ server, application }) => {
            return describeServer(server, application, {
              endpoints: descriptions.of(server),
              sessionProperties: sessions?.of(server),
            })
          }),
        )
        if (leftOut > 0 && !tooMuch)
          log.warn(
            { offered: devices.length, leftOut },
            'more servers were found than can be offered',
          )
        tooMuch = leftOut > 0
        yield devices
      }

      function isWanted({ applicationName }: ApplicationIdentity): boolean {
        return passesFilter(applicationNames, applicationName)
      }

      function mayBeWanted({ application }: OpcuaServer): boolean {
        return application === undefined || isWanted(application)
      }

      /** Of a server that is only announced nothing is known before it has answered, not even whether it is one. */
      function applicationOf(server: OpcuaServer): ApplicationIdentity | undefined {
        return server.application ?? descriptions.of(server)?.application
      }

      function serverLists(): ServerLists {
        const { standard } = details.opcuaDiscoveryMethod
        if (standard === undefined) return announced()
        const { discoveryUrls, unusable } = standard
        for (const { url, problem } of unusable) {
          log.warn(
            { discoveryUrl: shownUrl(url), error: problem },
            'discovery URL is left out, the others are asked',
          )
        }
        if (discoveryUrls.length === 0)
          log.warn({}, 'discoveryUrls is empty, so nothing will be found')
        return findServersMethod({
          ...options,
          discoveryUrls,
          hostNames,
          recentlyAnswered: heard,
          responsive: answering,
          log,
          signal,
          clock,
          interval,
        })
      }

      function announced(): ServerLists {
        const networks = allowedNetworks?.map(({ address, prefix }) => `${address}/${prefix}`)
        const given = networks === undefined ? {} : { allowedNetworks: networks }
        const lists = atLeastEvery(browseServers({ log, signal, clock, ...given }), interval, {
          signal,
          clock,
        })
        return mdnsMethod({
          ...options,
          announced: lists,
          hostNames,
          reach,
          recentlyAnswered: heard,
          responsive: answering,
          log,
          signal,
          clock,
        })
      }

      function heard(
        servers: readonly OpcuaServer[],
        until: AbortSignal,
      ): Promise<ReadonlySet<string>> {
        return descriptions.recentlyAnswered(servers.filter(mayBeWanted), until)
      }

      function answering(
        servers: readonly OpcuaServer[],
        until: AbortSignal,
      ): Promise<ReadonlySet<string>> {
        return descriptions.responsive(servers.filter(mayBeWanted), until)
      }
    },
  })
}
