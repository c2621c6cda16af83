import { type EndpointUrl, originOf, readEndpointUrl } from '../endpoint-url.js'
import type { OpcuaServer } from '../opcua-server.js'
import {
  type ApplicationDescription,
  ApplicationType,
  type ServerOnNetwork,
} from '../ua-tcp/discovery-services.js'

/** Who was asked. */
export interface Asked {
  /** As it stands in the details. */
  readonly discoveryUrl: string
  readonly url: EndpointUrl
  /** Where it is. */
  readonly addresses: readonly string[]
}

/** Whether it is a discovery server: one that speaks for others. */
export function isDiscoveryServer(applications: readonly ApplicationDescription[]): boolean {
  return applications.some(
    ({ applicationType }) => applicationType === ApplicationType.discoveryServer,
  )
}

/**
 * Whether a discovery server gives the URL that it was asked by for those of the servers that it lists, as that of open62541 1.4
 * does. No server that it lists can be there, where it is itself.
 */
export function echoesItsUrl(
  applications: readonly ApplicationDescription[],
  { discoveryUrl }: Pick<Asked, 'discoveryUrl'>,
): boolean {
  const isServer = ({ applicationType }: ApplicationDescription) =>
    applicationType === ApplicationType.server
  return (
    isDiscoveryServer(applications) &&
    applications.some((one) => isServer(one) && chosenUrl(one) === discoveryUrl)
  )
}

/** The hosts in the URLs that {@link listedServers} would choose. */
export function hostsOf(applications: readonly ApplicationDescription[]): string[] {
  const hosts = applications.flatMap(
    (application) => readEndpointUrl(chosenUrl(application) ?? '')?.host ?? [],
  )
  return [...new Set(hosts)]
}

/**
 * The servers in an answer to FindServers. Kept are applications of type Server alone: a ClientAndServer answers to its
 * client's needs, and a DiscoveryServer is where we are. An application without an `opc.tcp` URL cannot be called.
 * @param resolves whether a host name means something here
 */
export function listedServers(
  applications: readonly ApplicationDescription[],
  asked: Asked,
  resolves: (host: string) => boolean,
): OpcuaServer[] {
  const speaksForOthers = isDiscoveryServer(applications)
  return applications.flatMap((application) => {
    if (application.applicationType !== ApplicationType.server) return []
    const text = chosenUrl(application)
    const url = text === undefined ? undefined : readEndpointUrl(text)
    if (text === undefined || url === undefined) return []
    const { applicationUri, productUri, applicationName } = application
    const discoveryUrl = resolves(url.host) ? text : withKnownHost(url, asked, speaksForOthers)
    return {
      discoveryUrl,
      application: { applicationUri, productUri, applicationName },
      listedFrom: asked.addresses,
    }
  })
}

/** What a discovery server with the multicast extension has heard of, without discovery servers. */
export function announcedServers(
  records: readonly ServerOnNetwork[],
  { addresses }: Asked,
): OpcuaServer[] {
  return records.flatMap(({ discoveryUrl, serverCapabilities }) => {
    if (serverCapabilities.includes('LDS') || readEndpointUrl(discoveryUrl) === undefined) return []
    return { discoveryUrl, listedFrom: addresses }
  })
}

/** The first one that is of UA-TCP. */
function chosenUrl({ discoveryUrls }: ApplicationDescription): string | undefined {
  return discoveryUrls.find((url) => readEndpointUrl(url) !== undefined)
}

/**
 * The URL of a server whose own host name means nothing here, which is common where PLCs name themselves. A server that speaks
 * for itself is where we have called it. One that a discovery server lists is on the same machine, as those it lists are by
 * its definition (OPC 10000-12, 4.3.2), but has a port of its own.
 */
function withKnownHost(
  { port, path }: EndpointUrl,
  { discoveryUrl, url }: Asked,
  speaksForOthers: boolean,
): string {
  const ownPath = path === '/' ? '' : path
  if (speaksForOthers) return `${originOf({ host: url.host, port })}${path}`
  return url.path === '' || url.path === '/'
    ? `${originOf(url)}${ownPath === '' ? url.path : ownPath}`
    : discoveryUrl
}
