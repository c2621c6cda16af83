import { isIPv6 } from 'node:net'
import { hostOf } from '@akrijs/sdk/network'
import { OnvifAddressError } from '../errors.js'
import type { NetworkPolicy } from '../network-policy.js'

export interface ServiceUrlOptions {
  /** Whether URLs of https come first: by others no credential is sent where certificates are verified. @default false */
  readonly secureFirst?: boolean
}

export interface ServiceUrls {
  /** Those that may be asked, the most wanted first. */
  readonly urls: readonly string[]
  /** Why each of the others may not be; no password is in it. */
  readonly refused: readonly string[]
}

/**
 * The URLs of a camera's device service, those first that any client can use: http before https and IPv4 before IPv6, and
 * otherwise in the order in which the camera names them.
 * @param xAddrs as the camera wrote them
 */
export function serviceUrls(
  xAddrs: readonly string[],
  policy: Pick<NetworkPolicy, 'read'>,
  { secureFirst = false }: ServiceUrlOptions = {},
): ServiceUrls {
  const refused: string[] = []
  const read = [...new Set(xAddrs)].flatMap((xAddr, index) => {
    try {
      return [{ xAddr, index, rank: rank(policy.read(xAddr), secureFirst) }]
    } catch (error) {
      if (!(error instanceof OnvifAddressError)) throw error
      refused.push(error.message)
      return []
    }
  })
  const urls = read.sort((a, b) => a.rank - b.rank || a.index - b.index).map(({ xAddr }) => xAddr)
  return { urls, refused }
}

function rank(url: URL, secureFirst: boolean): number {
  const [isSecure, isOfIpv6] = [Number(url.protocol === 'https:'), Number(isIPv6(hostOf(url)))]
  return secureFirst ? 2 * (1 - isSecure) + isOfIpv6 : 2 * isOfIpv6 + isSecure
}
