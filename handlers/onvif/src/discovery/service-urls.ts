import { isIPv6 } from 'node:net'
import { hostOf } from '@akrijs/sdk/network'
import { OnvifAddressError } from '../errors.js'
import type { NetworkPolicy } from '../network-policy.js'

export interface ServiceUrlOptions {
  /**
   * Whether https comes before http: a client that verifies certificates sends no credential by
   * http. @default false
   */
  readonly secureFirst?: boolean
}

/**
 * The URLs of a camera's device service in the order of preference: URLs that every client can use
 * come first. That is http before https, IPv4 before IPv6, and then the order of the camera.
 * @param xAddrs the URLs as the camera wrote them
 * @returns `urls` are those that may be called; `refused` has the reason for each other URL,
 * without passwords
 */
export function serviceUrls(
  xAddrs: readonly string[],
  policy: Pick<NetworkPolicy, 'read'>,
  { secureFirst = false }: ServiceUrlOptions = {},
): { readonly urls: readonly string[]; readonly refused: readonly string[] } {
  const refused: string[] = []
  const allowed = [...new Set(xAddrs)].flatMap((xAddr, index) => {
    try {
      return [{ xAddr, index, rank: rank(policy.read(xAddr), secureFirst) }]
    } catch (error) {
      if (!OnvifAddressError.is(error)) throw error
      refused.push(error.message)
      return []
    }
  })
  const urls = allowed
    .sort((a, b) => a.rank - b.rank || a.index - b.index)
    .map(({ xAddr }) => xAddr)
  return { urls, refused }
}

function rank(url: URL, secureFirst: boolean): number {
  const [isSecure, isOfIpv6] = [Number(url.protocol === 'https:'), Number(isIPv6(hostOf(url)))]
  return secureFirst ? 2 * (1 - isSecure) + isOfIpv6 : 2 * isOfIpv6 + isSecure
}
