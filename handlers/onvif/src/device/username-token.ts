import { createHash, randomBytes } from 'node:crypto'
import type { Credential } from '../credentials.js'
import { escapeXml } from '../xml.js'

const WSS = 'http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss'

export interface TokenMoment {
  /** The time that the camera has, in milliseconds since the epoch: it refuses what looks old. */
  readonly time: number
  /** Never the same twice. @default 16 random bytes */
  readonly nonce?: Uint8Array
}

/** The SOAP header by which a user is known (Web Services Security UsernameToken Profile 1.0): a digest of the password, not it. */
export function usernameToken(
  { username, password }: Credential,
  { time, nonce = randomBytes(16) }: TokenMoment,
): string {
  const created = new Date(time).toISOString()
  return (
    `<Security xmlns="${WSS}-wssecurity-secext-1.0.xsd" s:mustUnderstand="1"><UsernameToken>` +
    `<Username>${escapeXml(username)}</Username>` +
    `<Password Type="${WSS}-username-token-profile-1.0#PasswordDigest">${passwordDigest(nonce, created, password)}</Password>` +
    `<Nonce EncodingType="${WSS}-soap-message-security-1.0#Base64Binary">${Buffer.from(nonce).toString('base64')}</Nonce>` +
    `<Created xmlns="${WSS}-wssecurity-utility-1.0.xsd">${created}</Created>` +
    '</UsernameToken></Security>'
  )
}

/** Section 3.1: base64(SHA-1(nonce + created + password)). */
export function passwordDigest(nonce: Uint8Array, created: string, password: string): string {
  return createHash('sha1').update(nonce).update(created).update(password).digest('base64')
}
