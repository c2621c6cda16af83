// Reads the answers to FindServers and FindServersOnNetwork. Pure.
import { type EndpointUrl, originOf, readEndpointUrl } from '../endpoint-url.js'
import type { OpcuaServer } from '../opcua-server.js'
import {
  type ApplicationDescription,
  ApplicationType,
  type ServerOnNetwork,
} from '../ua-tcp/discovery-services.js'

/** The server or discovery server that gave the answer. */
export interface Respondent {
  /** The spelling of the details. */
  readonly discoveryUrl: string
  readonly url: EndpointUrl
  /** The addresses of the host in the URL. */
  readonly addresses: readonly string[]
}

/** Whether the answer comes from a discovery server, which reports other servers. */
export function isDiscoveryServer(applications: readonly ApplicationDescription[]): boolean {
  return applications.some(
    ({ applicationType }) => applicationType === ApplicationType.discoveryServer,
  )
}

/**
 * Whether a discovery server reports the URL of the request as the URL of its servers, as that of
 * open62541 1.4 does. No other server can be at that URL, where the discovery server itself is.
 */
export function echoesRequestUrl(
  applications: readonly ApplicationDescription[],
  { discoveryUrl }: Pick<Respondent, 'discoveryUrl'>,
): boolean {
  return (
    isDiscoveryServer(applications) &&
    applications.some(
      (application) =>
        application.applicationType === ApplicationType.server &&
        chosenUrl(application) === discoveryUrl,
    )
  )
}

/** The hosts of the URLs that {@link listedServers} would choose. */
export function hostsOf(applications: readonly ApplicationDescription[]): string[] {
  const hosts = applications.flatMap(
    (application) => readEndpointUrl(chosenUrl(application) ?? '')?.host ?? [],
  )
  return [...new Set(hosts)]
}

/**
 * The servers in an answer to FindServers: applications of type Server with an `opc.tcp` URL.
 * A ClientAndServer serves only its own client, and a DiscoveryServer is the respondent itself.
 * @param resolves whether this machine can resolve a host name
 */
export function listedServers(
  applications: readonly ApplicationDescription[],
  respondent: Respondent,
  resolves: (host: string) => boolean,
): OpcuaServer[] {
  const isOfDiscoveryServer = isDiscoveryServer(applications)
  return applications.flatMap((application) => {
    if (application.applicationType !== ApplicationType.server) return []
    const text = chosenUrl(application)
    const url = text === undefined ? undefined : readEndpointUrl(text)
    if (text === undefined || url === undefined) return []
    const { applicationUri, productUri, applicationName } = application
    const discoveryUrl = resolves(url.host)
      ? text
      : withRespondentHost(url, respondent, isOfDiscoveryServer)
    return {
      discoveryUrl,
      application: { applicationUri, productUri, applicationName },
      listedFrom: respondent.addresses,
    }
  })
}

/** The servers that a discovery server received by multicast, without discovery servers. */
export function announcedServers(
  records: readonly ServerOnNetwork[],
  { addresses }: Respondent,
): OpcuaServer[] {
  return records.flatMap(({ discoveryUrl, serverCapabilities }) => {
    if (serverCapabilities.includes('LDS') || readEndpointUrl(discoveryUrl) === undefined) return []
    return { discoveryUrl, listedFrom: addresses }
  })
}

/** The first URL with the UA-TCP transport. */
function chosenUrl({ discoveryUrls }: ApplicationDescription): string | undefined {
  return discoveryUrls.find((url) => readEndpointUrl(url) !== undefined)
}

/**
 * Replaces a host name that this machine cannot resolve, which is common for PLCs. A server that
 * reports itself has the host and port of the request. A server that a discovery server lists runs
 * on the same machine by definition (OPC 10000-12, 4.3.2), with a port of its own.
 */
function withRespondentHost(
  { port, path }: EndpointUrl,
  { discoveryUrl, url }: Respondent,
  isOfDiscoveryServer: boolean,
): string {
  if (isOfDiscoveryServer) return `${originOf({ host: url.host, port })}${path}`
  if (url.path !== '' && url.path !== '/') return discoveryUrl
  return `${originOf(url)}${path === '' || path === '/' ? url.path : path}`
}
