import { createHash } from 'node:crypto'
import type { ApplicationIdentity } from './opcua-server.js'
import { ApplicationType, type EndpointDescription } from './ua-tcp/index.js'

/** By their numbers on the wire (OPC 10000-4, 7.20 and 7.40). */
const MODES = [undefined, 'None', 'Sign', 'SignAndEncrypt'] as const
const USER_TOKENS = ['Anonymous', 'UserName', 'Certificate', 'IssuedToken'] as const
const POLICY_PREFIX = 'http://opcfoundation.org/UA/SecurityPolicy#'
/** The limit of each list of names; OPC 10000-7 has some fifteen policies. */
const MAX_NAMES = 20
const MAX_CERTIFICATES = 4

/** A summary of the endpoints of a server. Lists are sorted: the order of endpoints may vary. */
export interface EndpointSummary {
  /** The identity of the server; missing if no endpoint belongs to a server. */
  readonly application?: ApplicationIdentity
  /** Whether all endpoints belong to a discovery server, which is not a device. */
  readonly isDiscoveryServer: boolean
  /** Such as `Basic256Sha256` and `None`. */
  readonly securityPolicies: readonly string[]
  /** Of `None`, `Sign` and `SignAndEncrypt`. */
  readonly securityModes: readonly string[]
  /** Of `Anonymous`, `UserName`, `Certificate` and `IssuedToken`. */
  readonly userTokens: readonly string[]
  /** SHA-1 in upper-case hexadecimal digits, the form that OPC UA tools use. */
  readonly certificateThumbprints: readonly string[]
}

/** Summarizes an answer to GetEndpoints. Only endpoints with the UA-TCP transport count. */
export function summarize(endpoints: readonly EndpointDescription[]): EndpointSummary {
  const uaTcp = endpoints.filter(({ endpointUrl }) => /^opc\.tcp:/i.test(endpointUrl))
  const hasType = (type: number) => (endpoint: EndpointDescription) =>
    endpoint.server.applicationType === type
  const server = (
    uaTcp.find(hasType(ApplicationType.server)) ??
    uaTcp.find(hasType(ApplicationType.clientAndServer))
  )?.server
  const userTokenTypes = uaTcp.flatMap((endpoint) => endpoint.userTokenTypes)
  return {
    ...(server && { application: identityOf(server) }),
    isDiscoveryServer: uaTcp.length > 0 && uaTcp.every(hasType(ApplicationType.discoveryServer)),
    securityPolicies: sorted(uaTcp.map(({ securityPolicyUri }) => policyName(securityPolicyUri))),
    securityModes: sorted(uaTcp.map(({ securityMode }) => MODES[securityMode])),
    userTokens: sorted(userTokenTypes.map((type) => USER_TOKENS[type])),
    certificateThumbprints: sorted(
      uaTcp.map(({ serverCertificate }) => thumbprint(serverCertificate)),
      MAX_CERTIFICATES,
    ),
  }
}

function identityOf({
  applicationUri,
  productUri,
  applicationName,
}: EndpointDescription['server']): ApplicationIdentity {
  return { applicationUri, productUri, applicationName }
}

function sorted(names: readonly (string | undefined)[], limit = MAX_NAMES): string[] {
  const distinct = new Set(names.filter((name) => name !== undefined))
  return [...distinct].sort().slice(0, limit)
}

function policyName(uri: string): string | undefined {
  const name = uri.startsWith(POLICY_PREFIX) ? uri.slice(POLICY_PREFIX.length) : ''
  return /^\w{1,64}$/.test(name) ? name : undefined
}

/** The thumbprint of the server's certificate; its issuers may follow it (OPC 10000-6, 6.2.6). */
function thumbprint(chain: Buffer): string | undefined {
  const length = derLength(chain)
  if (length === undefined || length > chain.length) return undefined
  return createHash('sha1').update(chain.subarray(0, length)).digest('hex').toUpperCase()
}

/** The length of the leading DER SEQUENCE, including its header. */
function derLength(bytes: Buffer): number | undefined {
  const [tag, first] = bytes
  if (tag !== 0x30 || first === undefined) return undefined
  if (first < 0x80) return 2 + first
  const size = first & 0x7f
  if (size === 0 || size > 4 || bytes.length < 2 + size) return undefined
  return 2 + size + bytes.readUIntBE(2, size)
}
