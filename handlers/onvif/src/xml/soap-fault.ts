import { cameraText } from './camera-text.js'
import type { XmlElement } from './xml.js'

/** Fault codes of ONVIF, and of Web Services Security. */
const NOT_AUTHORIZED: ReadonlySet<string> = new Set([
  'NotAuthorized',
  'InvalidSecurity',
  'InvalidSecurityToken',
  'SecurityTokenUnavailable',
  'UnsupportedSecurityToken',
  'FailedAuthentication',
  'FailedCheck',
  'MessageExpired',
])

/** Fault codes of a camera that lacks the operation, whatever the reason says. */
const NOT_SUPPORTED: ReadonlySet<string> = new Set([
  'ActionNotSupported',
  'OptionalActionNotImplemented',
])

/** Many cameras refuse a credential by codes of their own, or in the text of the reason only. */
const SPEAKS_OF_CREDENTIAL = new RegExp(
  'authori[sz]|authenti|credential|passw|user ?name|log(ged)?[- ]?in\\b|' +
    '(access|permission).?denied|wsse|nonce|timestamp|expired',
  'i',
)

/**
 * Reads a fault of SOAP 1.2 or 1.1.
 * @returns `words`: its codes and its reason
 */
export function readFault(fault: XmlElement): {
  readonly words: string
  readonly isAboutCredential: boolean
  /** Whether the sender lacks the operation. */
  readonly isNotSupported: boolean
} {
  const codes: string[] = []
  const add = (code: string | undefined) =>
    code !== undefined && codes.push(fault.qualifiedName(code).local)
  for (let code = fault.find('Code'); code !== undefined; code = code.find('Subcode'))
    add(code.textOf('Value'))
  // SOAP 1.1: a code may have parts, separated by dots.
  for (const code of fault.textOf('faultcode')?.split('.') ?? []) add(code)
  const reason = fault.textOf('Reason', 'Text') ?? fault.textOf('faultstring')
  const words = cameraText(
    `${codes.join(', ') || 'a fault'}${reason === undefined ? '' : `: ${reason}`}`,
  )
  const has = (known: ReadonlySet<string>) => codes.some((code) => known.has(code))
  const isNotSupported = has(NOT_SUPPORTED)
  const isAboutCredential =
    has(NOT_AUTHORIZED) || (!isNotSupported && SPEAKS_OF_CREDENTIAL.test(words))
  return { words, isAboutCredential, isNotSupported }
}
