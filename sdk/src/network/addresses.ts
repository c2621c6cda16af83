import { isIP, isIPv6 } from 'node:net'

/**
 * The canonical spelling of an address, without its zone. An IPv4 address that is written as an
 * IPv6 address becomes the IPv4 address. Any other text comes back unchanged.
 *
 * @example
 * plainAddress('::ffff:192.0.2.1') // '192.0.2.1'
 * plainAddress('FE80::0001%eth0') // 'fe80::1'
 */
export function plainAddress(address: string): string {
  const [plain = ''] = address.split('%', 1)
  if (!isIPv6(plain)) return plain
  const canonical = hostOf(new URL(`http://[${plain}]/`))
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical)
  if (mapped === null) return canonical
  const value = (Number.parseInt(mapped[1] ?? '', 16) << 16) | Number.parseInt(mapped[2] ?? '', 16)
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 0xff).join('.')
}

/**
 * The host of a URL, without the brackets of an IPv6 address.
 * @param url a URL
 *
 * @example
 * hostOf(new URL('http://[2001:db8::1]:8080/')) // '2001:db8::1'
 */
export function hostOf({ hostname }: Pick<URL, 'hostname'>): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

/**
 * The address in a URL, in the spelling of {@link plainAddress}; undefined if the URL has a host
 * name, or the text is no URL.
 *
 * @example
 * addressOfUrl('http://192.0.2.1/onvif') // '192.0.2.1'
 * addressOfUrl('http://camera.local/') // undefined
 */
export function addressOfUrl(text: string): string | undefined {
  const host = URL.canParse(text) ? hostOf(new URL(text)) : ''
  return isIP(host) > 0 ? plainAddress(host) : undefined
}

/**
 * Whether an address is a link-local address of IPv6 (fe80::/10).
 *
 * @example
 * isLinkLocal('fe80::1') // true
 */
export function isLinkLocal(address: string): boolean {
  return isIPv6(address) && /^fe[89ab][0-9a-f]:/i.test(address)
}
