import type { Device } from '@akrijs/sdk'
import type { EndpointSummary } from './endpoint-summary.js'
import type { ApplicationIdentity, OpcuaServer } from './opcua-server.js'

/** The longest property value from the network, in bytes. */
const MAX_VALUE_BYTES = 512

/** What calls to a server returned. */
interface ServerDescription {
  readonly endpoints?: EndpointSummary | undefined
  /** Properties that a session added. */
  readonly sessionProperties?: Readonly<Record<string, string>> | undefined
}

/** The device of a server. Its id and `OPCUA_DISCOVERY_URL` are the same as in Akri. */
export function describeServer(
  { discoveryUrl, addresses = [] }: OpcuaServer,
  { applicationUri, productUri, applicationName }: ApplicationIdentity,
  { endpoints, sessionProperties = {} }: ServerDescription,
): Device {
  const values: Readonly<Record<string, string>> = {
    // The DNS of a cluster cannot resolve an announced name. A link-local address (with `%`) works
    // on one machine only.
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

/** Whether a value from the network is safe in an environment variable. */
function isUsable(value: string): boolean {
  return value !== '' && Buffer.byteLength(value) <= MAX_VALUE_BYTES && !/\p{Cc}/u.test(value)
}
