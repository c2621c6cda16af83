import type { ServerInfo } from './read-server.js'

/** How it went with the session, for `OPCUA_SERVER_DETAILS`: what an operator can do something about. */
export type SessionOutcome =
  /** Read without a user. */
  | 'anonymous'
  /** Read as the user of a credential. */
  | 'user'
  /** No credential is there that the server takes. */
  | 'credential-wanted'
  /** The server does not take the credential. */
  | 'credential-refused'
  /** There is a credential, but the server's certificate is not among the trusted ones, so it is not given to it. */
  | 'certificate-not-trusted'
  /** The server offers nothing but endpoints that are not secure enough for the credential, or by policies that are no longer used. */
  | 'security-too-weak'

/** Properties of a device are bounded, in bytes. */
const MAX_NAMESPACES_BYTES = 512

/** Properties that a session adds to a server. What a server does not say is left out. */
export function sessionProperties(
  outcome: SessionOutcome,
  facts: ServerInfo | undefined,
): Record<string, string> {
  const values = {
    OPCUA_SERVER_DETAILS: outcome,
    OPCUA_SERVER_STATE: facts?.state,
    OPCUA_SERVER_START_TIME: facts?.startTime?.toISOString(),
    OPCUA_PRODUCT_NAME: facts?.productName,
    OPCUA_MANUFACTURER: facts?.manufacturer,
    OPCUA_SOFTWARE_VERSION: facts?.softwareVersion,
    OPCUA_BUILD_NUMBER: facts?.buildNumber,
    OPCUA_BUILD_DATE: facts?.buildDate?.toISOString(),
    OPCUA_NAMESPACES: facts && namespacesText(facts.namespaces),
  }
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1])),
  )
}

/** URIs by their index, separated by spaces, as many as there is room for. What is no URI has `-` in its place. */
function namespacesText(namespaces: readonly string[]): string {
  let text = ''
  for (const uri of namespaces) {
    const longer = `${text}${text === '' ? '' : ' '}${/^[\x21-\x7e]+$/.test(uri) ? uri : '-'}`
    if (Buffer.byteLength(longer) > MAX_NAMESPACES_BYTES) return text
    text = longer
  }
  return text
}
