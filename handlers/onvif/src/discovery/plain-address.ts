import { isIP } from 'node:net'

/** An address in the one spelling that the system has for it, without its zone. */
export function plainAddress(address: string): string {
  const plain = address.replace(/%.*$/, '')
  return isIP(plain) === 6 ? hostOfUrl(`http://[${plain}]/`) : plain
}

/** The address of a URL, without the brackets of IPv6; undefined where it has a name. */
export function addressOfUrl(url: string): string | undefined {
  const host = hostOfUrl(url)
  return isIP(host) > 0 ? host : undefined
}

function hostOfUrl(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[(.*)\]$/, '$1') : ''
}
