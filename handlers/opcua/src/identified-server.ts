// Decides which application is at the URL of a server, and whether it is a device. Pure.
import { messageOf, type ReportedDevice } from '@akrijs/sdk'
import type { EndpointSummary } from './endpoint-summary.js'
import { shownUrl } from './endpoint-url.js'
import { type LeftOutApplication, reasonOf } from './left-out-reason.js'
import {
  type ApplicationIdentity,
  applicationKey,
  type OpcuaServer,
  type ServerClaim,
} from './opcua-server.js'

/** The results of GetEndpoints at the URL of a server. */
export interface EndpointsAnswer {
  /** The last answer; undefined before the first. */
  readonly endpoints: EndpointSummary | undefined
  /** The error of the last call; undefined after an answer. */
  readonly failure: unknown
}

/**
 * The identity of a server, as far as it is known. A listed server is what its list reports, unless
 * another list reports something else. An announced server is what it reports itself: it may not be
 * a server at all. A claimed server has to report the identity that is claimed. A discovery server
 * is never a device.
 */
export function applicationOf(
  { application, claims, rivals }: OpcuaServer,
  { endpoints }: EndpointsAnswer,
): ApplicationIdentity | undefined {
  if (endpoints?.isDiscoveryServer) return undefined
  const answered = endpoints?.application
  if (application !== undefined) return (rivals && answered) ?? application
  if (answered === undefined || claims === undefined) return answered
  return claims.some((claim) => isMet(claim, answered)) ? answered : undefined
}

/** The applications that are not at the URL, each with the reason. */
export function absentApplications(
  server: OpcuaServer,
  answer: EndpointsAnswer,
): readonly LeftOutApplication[] {
  const { claims = [], discoveryUrl } = server
  const application = applicationOf(server, answer)
  const why = absence(answer)
  const id = shownUrl(discoveryUrl)
  const isClaimOnly = server.application === undefined && claims.length > 0
  return [
    ...(application === undefined && !isClaimOnly
      ? [{ id, application: server.application?.applicationUri ?? '', ...why }]
      : []),
    ...claims
      .filter((claim) => application === undefined || !isMet(claim, application))
      .map(({ url, name, applicationUri, reason }) => ({
        id: shownUrl(url),
        application: applicationUri || name,
        reason,
        detail: `${name}; ${id}: ${why.detail ?? why.reason}`,
      })),
    ...absentRivals(server, application).map(({ applicationUri, applicationName }) => ({
      id: `${id} (${applicationUri || applicationName})`,
      application: applicationUri,
      reason: 'another application has its URL',
      detail: applicationName,
    })),
  ]
}

/** The applications that reports name at the URL of a server, without that which is offered. */
function absentRivals(
  server: OpcuaServer,
  offered: ApplicationIdentity | undefined,
): readonly ApplicationIdentity[] {
  const others = server.rivals ?? []
  if (offered === undefined) return others
  const all = server.application === undefined ? others : [server.application, ...others]
  return all.filter((each) => applicationKey(each) !== applicationKey(offered))
}

function isMet({ applicationUri }: ServerClaim, application: ApplicationIdentity): boolean {
  return applicationUri === undefined || applicationUri === application.applicationUri
}

function absence({ endpoints, failure }: EndpointsAnswer): Omit<ReportedDevice, 'id'> {
  if (endpoints?.isDiscoveryServer) return { reason: 'a discovery server answers' }
  if (endpoints?.application !== undefined)
    return { reason: 'another server answers', detail: endpoints.application.applicationUri }
  if (failure !== undefined) return { reason: reasonOf(failure), detail: messageOf(failure) }
  return { reason: endpoints === undefined ? 'no answer yet' : 'no opc.tcp endpoint of a server' }
}
