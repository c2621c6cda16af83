import type { ServerInfo } from './read-server.js'

/** The result of a session for `OPCUA_SERVER_DETAILS`. */
export type SessionOutcome =
  /** The server accepted a session without a user. */
  | 'anonymous'
  /** The server accepted the user of a credential. */
  | 'user'
  /** The server needs a credential, and none exists. */
  | 'credential-wanted'
  /** The server refuses the credential. */
  | 'credential-refused'
  /** No endpoint of the server takes a credential of this kind. */
  | 'credential-not-taken'
  /** The server refuses the secured connection that the credential needs. */
  | 'connection-refused'
  /** The server refuses the session, or ends it, for another reason than the user. */
  | 'session-refused'
  /** The certificate of the server is not trusted, so the handler keeps the credential. */
  | 'certificate-not-trusted'
  /** No endpoint is secure enough for the credential, or all policies are deprecated. */
  | 'security-too-weak'

/** The property goes into the environment of containers; a server can have thousands of them. */
const MAX_NAMESPACES_BYTES = 512

/**
 * The properties that a session adds to a device, without those that the server omits.
 * @param unused why the credential for all servers was not used
 */
export function sessionProperties(
  outcome: SessionOutcome,
  info: ServerInfo | undefined,
  unused?: SessionOutcome,
): Record<string, string> {
  const values = {
    OPCUA_SERVER_DETAILS: outcome,
    OPCUA_DEFAULT_CREDENTIAL: unused,
    OPCUA_SERVER_STATE: info?.state,
    OPCUA_SERVER_START_TIME: info?.startTime?.toISOString(),
    OPCUA_PRODUCT_NAME: info?.productName,
    OPCUA_MANUFACTURER: info?.manufacturer,
    OPCUA_SOFTWARE_VERSION: info?.softwareVersion,
    OPCUA_BUILD_NUMBER: info?.buildNumber,
    OPCUA_BUILD_DATE: info?.buildDate?.toISOString(),
    OPCUA_NAMESPACES: info && namespacesText(info.namespaces),
  }
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1])),
  )
}

/** URIs in the order of their indices, as many as fit. `-` stands for an invalid URI. */
function namespacesText(namespaces: readonly string[]): string {
  let text = ''
  for (const uri of namespaces) {
    const longer = `${text}${text === '' ? '' : ' '}${/^[\x21-\x7e]+$/.test(uri) ? uri : '-'}`
    if (Buffer.byteLength(longer) > MAX_NAMESPACES_BYTES) return text
    text = longer
  }
  return text
}
