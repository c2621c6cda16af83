import { createHash, randomBytes } from 'node:crypto'
import type { Credential } from '../credentials.js'
import { escapeXml } from '../xml/xml.js'

const WSS = 'http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss'

/**
 * The SOAP header that names a user (Web Services Security UsernameToken Profile 1.0). It has a
 * digest of the password, not the password.
 * @param time the time of the camera's clock, in milliseconds since the epoch: a camera refuses an
 * old token
 * @param nonce must differ in each token
 */
export function usernameToken(
  { username, password }: Credential,
  time: number,
  nonce: Uint8Array = randomBytes(16),
): string {
  const created = new Date(time).toISOString()
  const digest = passwordDigest(nonce, created, password)
  const encoded = Buffer.from(nonce).toString('base64')
  return (
    `<Security xmlns="${WSS}-wssecurity-secext-1.0.xsd" s:mustUnderstand="1"><UsernameToken>` +
    `<Username>${escapeXml(username)}</Username>` +
    `<Password Type="${WSS}-username-token-profile-1.0#PasswordDigest">${digest}</Password>` +
    `<Nonce EncodingType="${WSS}-soap-message-security-1.0#Base64Binary">${encoded}</Nonce>` +
    `<Created xmlns="${WSS}-wssecurity-utility-1.0.xsd">${created}</Created>` +
    '</UsernameToken></Security>'
  )
}

/** Section 3.1: base64(SHA-1(nonce + created + password)). */
export function passwordDigest(nonce: Uint8Array, created: string, password: string): string {
  return createHash('sha1').update(nonce).update(created).update(password).digest('base64')
}
