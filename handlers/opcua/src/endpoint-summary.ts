import { createHash } from 'node:crypto'
import type { ApplicationIdentity } from './opcua-server.js'
import { ApplicationType, type EndpointDescription } from './ua-tcp/discovery-services.js'

const MODES = new Map([
  [1, 'None'],
  [2, 'Sign'],
  [3, 'SignAndEncrypt'],
])
const USER_TOKENS = new Map([
  [0, 'Anonymous'],
  [1, 'UserName'],
  [2, 'Certificate'],
  [3, 'IssuedToken'],
])
const POLICY_PREFIX = 'http://opcfoundation.org/UA/SecurityPolicy#'
/** The most names of one kind; OPC 10000-7 has some fifteen policies. */
const MAX_NAMES = 20
const MAX_CERTIFICATES = 4

/** What is worth keeping of the endpoints of a server. Lists are sorted, so that they are the same in whatever order they came. */
export interface EndpointSummary {
  /** What the server says that it is; missing where it is no server, or has no endpoint. */
  readonly application?: ApplicationIdentity
  /** Such as `Basic256Sha256` and `None`. */
  readonly securityPolicies: readonly string[]
  /** Of `None`, `Sign` and `SignAndEncrypt`. */
  readonly securityModes: readonly string[]
  /** Of `Anonymous`, `UserName`, `Certificate` and `IssuedToken`. */
  readonly userTokens: readonly string[]
  /** SHA-1 in upper-case hexadecimal digits, as tools of OPC UA show it and name files by it. */
  readonly certificateThumbprints: readonly string[]
}

/** Sums up an answer to GetEndpoints. Endpoints with other transports are left out: what is offered is the one of UA-TCP. */
export function summarize(endpoints: readonly EndpointDescription[]): EndpointSummary {
  const ours = endpoints.filter(({ endpointUrl }) => /^opc\.tcp:/i.test(endpointUrl))
  const server = ours.find(
    ({ server: { applicationType } }) => applicationType === ApplicationType.server,
  )?.server
  return {
    ...(server && { application: identityOf(server) }),
    securityPolicies: sorted(
      ours.flatMap(({ securityPolicyUri }) => policyName(securityPolicyUri) ?? []),
      MAX_NAMES,
    ),
    securityModes: sorted(
      ours.flatMap(({ securityMode }) => MODES.get(securityMode) ?? []),
      MAX_NAMES,
    ),
    userTokens: sorted(
      ours.flatMap(({ userTokenTypes }) =>
        userTokenTypes.flatMap((type) => USER_TOKENS.get(type) ?? []),
      ),
      MAX_NAMES,
    ),
    certificateThumbprints: sorted(
      ours.flatMap(({ serverCertificate }) => thumbprint(serverCertificate) ?? []),
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

function sorted(names: readonly string[], atMost: number): string[] {
  return [...new Set(names)].sort().slice(0, atMost)
}

function policyName(uri: string): string | undefined {
  const name = uri.startsWith(POLICY_PREFIX) ? uri.slice(POLICY_PREFIX.length) : ''
  return /^\w{1,64}$/.test(name) ? name : undefined
}

/** Of the server's own certificate, where those of its issuers follow it (OPC 10000-6, 6.2.6). */
function thumbprint(chain: Buffer): string | undefined {
  const length = derLength(chain)
  if (length === undefined || length > chain.length) return undefined
  return createHash('sha1').update(chain.subarray(0, length)).digest('hex').toUpperCase()
}

/** The length of the SEQUENCE that bytes begin with, with its header. */
function derLength(bytes: Buffer): number | undefined {
  const [tag, first] = bytes
  if (tag !== 0x30 || first === undefined) return undefined
  if (first < 0x80) return 2 + first
  const size = first & 0x7f
  if (size === 0 || size > 4 || bytes.length < 2 + size) return undefined
  return 2 + size + bytes.readUIntBE(2, size)
}
