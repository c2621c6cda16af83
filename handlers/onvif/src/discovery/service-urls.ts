import { isIP, isIPv6 } from 'node:net'
import type { NetworkPolicy } from '../network-policy.js'

/**
 * The URLs of a camera's device service that may be asked, the most wanted first: those that any client can use before https and
 * IPv6, and otherwise in the order in which the camera names them.
 * @param xAddrs as the camera wrote them; what is no such URL is left out
 */
export function serviceUrls(xAddrs: readonly string[], policy: Pick<NetworkPolicy, 'allows'>): string[] {
  return [...new Set(xAddrs)]
    .filter((xAddr) => mayBeAsked(xAddr, policy))
    .map((xAddr, index) => ({ xAddr, index, rank: rank(new URL(xAddr)) }))
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

function rank(url: URL): number {
  return (isIPv6(hostOf(url)) ? 2 : 0) + (url.protocol === 'https:' ? 1 : 0)
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1')
}
