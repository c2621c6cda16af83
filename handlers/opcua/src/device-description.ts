import type { Device } from '@akrijs/sdk'
import type { EndpointSummary } from './endpoint-summary.js'
import type { ApplicationIdentity, OpcuaServer } from './opcua-server.js'

/** The longest value that came from the network, in bytes. */
const MAX_VALUE_BYTES = 512

/** What is known of a server besides where it is. */
export interface ServerDescription {
  readonly endpoints?: EndpointSummary | undefined
  /** Properties that a session has told. */
  readonly sessionProperties?: Readonly<Record<string, string>> | undefined
}

/** A server as the agent gets it. Id and `OPCUA_DISCOVERY_URL` are those of the existing system. */
export function describeServer(
  { discoveryUrl, addresses = [] }: OpcuaServer,
  { applicationUri, productUri, applicationName }: ApplicationIdentity,
  { endpoints, sessionProperties = {} }: ServerDescription,
): Device {
  const values: Readonly<Record<string, string>> = {
    // A name that is announced means nothing to the DNS of a cluster. A link-local address is of use on one machine only.
    OPCUA_SERVER_ADDRESSES: addresses.filter((address) => !address.includes('%')).join(','),
    OPCUA_APPLICATION_URI: applicationUri,
    OPCUA_APPLICATION_NAME: applicationName,
    OPCUA_PRODUCT_URI: productUri,
    OPCUA_SECURITY_POLICIES: endpoints?.securityPolicies.join(',') ?? '',
    OPCUA_SECURITY_MODES: endpoints?.securityModes.join(',') ?? '',
    OPCUA_USER_TOKENS: endpoints?.userTokens.join(',') ?? '',
    OPCUA_SERVER_CERTIFICATE_THUMBPRINT: endpoints?.certificateThumbprints.join(',') ?? '',
    ...sessionProperties,
  }
  const properties = Object.fromEntries(
    Object.entries(values).filter(([, value]) => isUsable(value)),
  )
  return { id: discoveryUrl, properties: { OPCUA_DISCOVERY_URL: discoveryUrl, ...properties } }
}

/** Whether a value that came from the network is one for an environment variable that people and scripts read. */
function isUsable(value: string): boolean {
  return value !== '' && Buffer.byteLength(value) <= MAX_VALUE_BYTES && !/\p{Cc}/u.test(value)
}
