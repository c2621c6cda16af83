// Reads the answers to FindServers and FindServersOnNetwork. Pure.
import type { ReportedDevice } from '@akrijs/sdk'
import {
  type EndpointUrl,
  endpointUrlProblem,
  originOf,
  readEndpointUrl,
  shownUrl,
} from '../endpoint-url.js'
import { type LeftOutApplication, withDistinctIds } from '../left-out-reason.js'
import type { OpcuaServer, ServerList } from '../opcua-server.js'
import {
  type ApplicationDescription,
  ApplicationType,
  type ServerOnNetwork,
} from '../ua-tcp/index.js'
import { hostProblem } from './announced-host.js'

/** The server or discovery server that gave the answer. */
export interface Respondent {
  /** The spelling of the details. */
  readonly discoveryUrl: string
  readonly url: EndpointUrl
  /** The addresses of the host in the URL. */
  readonly addresses: readonly string[]
}

/** The addresses of a host; none if its name does not resolve. */
export type AddressesOf = (host: string) => readonly string[]

/** The URLs of an application that are considered. */
const MAX_URLS = 8
const NO_ENDPOINT = 'ClientAndServer without a working endpoint'
const SAME_ADDRESS = 'has the address of its discovery server'

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
      (application) => isServer(application) && usableUrls(application)[0]?.text === discoveryUrl,
    )
  )
}

/** The hosts in the URLs of an answer. */
export function hostsIn(discoveryUrls: readonly string[]): string[] {
  return [...new Set(discoveryUrls.flatMap((url) => readEndpointUrl(url)?.host ?? []))]
}

/** The URLs of servers whose hosts {@link listedServers} needs. */
export function urlsIn(applications: readonly ApplicationDescription[]): string[] {
  return applications
    .filter(isServer)
    .flatMap((application) => usableUrls(application).map(({ text }) => text))
}

/**
 * The servers in an answer to FindServers. A host that means nothing on this machine is common for
 * PLCs. A server that reports itself then has the host of the request. A server that a discovery
 * server lists runs on the same machine by definition (OPC 10000-12, 4.3.2), but few products obey:
 * such a server is only claimed. So is one at the address of the discovery server itself.
 */
export function listedServers(
  applications: readonly ApplicationDescription[],
  respondent: Respondent,
  addressesOf: AddressesOf,
): ServerList {
  const isOfDiscoveryServer = isDiscoveryServer(applications)
  const uris = new Set(applications.filter(isServer).map(({ applicationUri }) => applicationUri))
  // A gateway, or a server of a redundant set, reports others too (OPC 10000-4, 5.5.2).
  const isOwn = !isOfDiscoveryServer && uris.size === 1
  const answer: Answer = { respondent, addressesOf, isOfDiscoveryServer, isOwn }
  const servers: OpcuaServer[] = []
  const leftOut: LeftOutApplication[] = []
  for (const application of applications) {
    if (application.applicationType === ApplicationType.discoveryServer) continue
    const server = isServer(application) ? serverOf(application, answer) : undefined
    if (server === undefined) leftOut.push(leftOutApplication(application))
    else servers.push(server)
  }
  return { servers, leftOut: withDistinctIds(leftOut) }
}

/** The servers that a discovery server received by multicast, without discovery servers. */
export function announcedServers(
  records: readonly ServerOnNetwork[],
  { addresses: respondent }: Respondent,
  addressesOf: AddressesOf,
): ServerList {
  const servers: OpcuaServer[] = []
  const leftOut: LeftOutApplication[] = []
  for (const { discoveryUrl, serverName, serverCapabilities } of records) {
    if (serverCapabilities.includes('LDS')) continue
    const url = readEndpointUrl(discoveryUrl)
    const addresses = url === undefined ? [] : addressesOf(url.host)
    // A host name without an address now can have one later.
    const problem =
      addresses.length > 0 ? hostProblem({ addresses, respondent, isOwn: false }) : undefined
    if (url !== undefined && problem === undefined)
      servers.push({ discoveryUrl, listedFrom: respondent })
    else {
      const why = problem === undefined ? urlProblem([discoveryUrl]) : { reason: problem }
      const id = shownUrl(discoveryUrl.trim()) || serverName
      leftOut.push({ id, application: serverName, ...why })
    }
  }
  return { servers, leftOut: withDistinctIds(leftOut) }
}

interface Answer {
  readonly respondent: Respondent
  readonly addressesOf: AddressesOf
  readonly isOfDiscoveryServer: boolean
  /** Whether the respondent reports itself, and no other server. */
  readonly isOwn: boolean
}

/** Undefined for an application without a usable URL. */
function serverOf(application: ApplicationDescription, answer: Answer): OpcuaServer | undefined {
  const { respondent, isOfDiscoveryServer, isOwn } = answer
  const { applicationUri, productUri, applicationName: name, applicationType } = application
  const urls = usableUrls(application).map((usable) => ({
    ...usable,
    problem: locationProblem(usable.url, answer),
  }))
  // The id of a server that reports itself comes from its first URL, as in Akri.
  const chosen = (isOwn ? undefined : urls.find(({ problem }) => problem === undefined)) ?? urls[0]
  if (chosen === undefined) return undefined
  const { text, url, problem } = chosen
  const server = {
    discoveryUrl:
      problem === undefined ? text : withRespondentHost(url, respondent, isOfDiscoveryServer),
    listedFrom: respondent.addresses,
  }
  if (problem !== undefined && !isOwn)
    return { ...server, claims: [{ url: text, name, applicationUri, reason: problem }] }
  if (applicationType === ApplicationType.clientAndServer)
    return { ...server, claims: [{ url: text, name, reason: NO_ENDPOINT }] }
  return {
    ...server,
    application: { applicationUri, productUri, applicationName: name },
    ...(problem !== undefined && { hasHostOfDetails: true }),
  }
}

/** Why a server may not be at its URL. */
function locationProblem(
  { host, port }: EndpointUrl,
  { respondent, addressesOf, isOfDiscoveryServer, isOwn }: Answer,
): string | undefined {
  const addresses = addressesOf(host)
  const problem = hostProblem({ addresses, respondent: respondent.addresses, isOwn })
  if (problem !== undefined) return problem
  const isSameAddress =
    port === respondent.url.port &&
    addresses.some((address) => respondent.addresses.includes(address))
  return isOfDiscoveryServer && isSameAddress ? SAME_ADDRESS : undefined
}

function isServer({ applicationType }: ApplicationDescription): boolean {
  return (
    applicationType === ApplicationType.server ||
    applicationType === ApplicationType.clientAndServer
  )
}

/** The place of the host in `opc.tcp://:4840`, as open62541 reports it: any of its machine. */
const MISSING_HOST = /(?<=^opc\.tcp:\/\/)(?=:\d)/i

/** The first URLs with the UA-TCP transport. */
function usableUrls({
  discoveryUrls,
}: ApplicationDescription): { readonly text: string; readonly url: EndpointUrl }[] {
  const usable = discoveryUrls.flatMap((text) => {
    const url = readEndpointUrl(text.replace(MISSING_HOST, '0.0.0.0'))
    return url === undefined ? [] : { text, url }
  })
  return usable.slice(0, MAX_URLS)
}

function leftOutApplication(description: ApplicationDescription): LeftOutApplication {
  const { applicationUri, applicationName, discoveryUrls } = description
  const application = applicationUri || applicationName
  const url = discoveryUrls.find((text) => text.trim() !== '')
  const id = url === undefined ? application : shownUrl(url.trim())
  return { id, application, ...leftOutBecause(description) }
}

function leftOutBecause(application: ApplicationDescription): Omit<ReportedDevice, 'id'> {
  const { applicationType, discoveryUrls } = application
  if (applicationType === ApplicationType.client) return { reason: 'only a client' }
  if (!isServer(application))
    return { reason: 'unknown application type', detail: String(applicationType) }
  return urlProblem(discoveryUrls)
}

/** Why no URL of an application is usable. */
function urlProblem(discoveryUrls: readonly string[]): Omit<ReportedDevice, 'id'> {
  const urls = discoveryUrls.filter((url) => url.trim() !== '')
  if (urls.length === 0) return { reason: 'no discovery URL' }
  const uaTcp = urls.find((url) => /^\s*opc\.tcp:/i.test(url))
  if (uaTcp === undefined)
    return { reason: 'no opc.tcp URL', detail: urls.slice(0, MAX_URLS).map(shownUrl).join(', ') }
  return { reason: 'unusable discovery URL', detail: endpointUrlProblem(uaTcp) ?? '' }
}

/**
 * Replaces a host that means nothing on this machine. A server that reports itself has the host and
 * port of the request. A server that a discovery server lists has a port of its own.
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
