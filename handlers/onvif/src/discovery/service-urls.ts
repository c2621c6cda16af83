import { isIP, isIPv6 } from 'node:net'
import type { NetworkPolicy } from '../network-policy.js'

export interface ServiceUrlOptions {
  /** Whether URLs of https come first: by others no credential is sent where certificates are verified. @default false */
  readonly secureFirst?: boolean
}

/**
 * The URLs of a camera's device service that may be asked, the most wanted first: those that any client can use before https and
 * IPv6, and otherwise in the order in which the camera names them.
 * @param xAddrs as the camera wrote them; what is no such URL is left out
 */
export function serviceUrls(
  xAddrs: readonly string[],
  policy: Pick<NetworkPolicy, 'allows'>,
  { secureFirst = false }: ServiceUrlOptions = {},
): string[] {
  return [...new Set(xAddrs)]
    .filter((xAddr) => mayBeAsked(xAddr, policy))
    .map((xAddr, index) => ({ xAddr, index, rank: rank(new URL(xAddr), secureFirst) }))
    .sort((a, b) => a.rank - b.rank || a.index - b.index)
    .map(({ xAddr }) => xAddr)
}

/** What a host name means is seen when it is asked. */
function mayBeAsked(xAddr: string, policy: Pick<NetworkPolicy, 'allows'>): boolean {
  if (!URL.canParse(xAddr)) return false
  const url = new URL(xAddr)
  if (!/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return false
  const host = hostOf(url)
  return isIP(host) === 0 || policy.allows(host)
}

function rank(url: URL, secureFirst: boolean): number {
  const [isSecure, isOfIpv6] = [Number(url.protocol === 'https:'), Number(isIPv6(hostOf(url)))]
  return secureFirst ? 2 * (1 - isSecure) + isOfIpv6 : 2 * isOfIpv6 + isSecure
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1')
}
