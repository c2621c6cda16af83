// Chooses the endpoint of a server for a session. Pure.
import type { EndpointDescription } from '../ua-tcp/index.js'

/** OPC 10000-4, 7.20 and 7.40; the numbers appear on the wire. */
const SecurityMode = { none: 1, sign: 2, signAndEncrypt: 3 } as const
export const UserTokenType = { anonymous: 0, password: 1, certificate: 2 } as const
export type UserTokenType = (typeof UserTokenType)[keyof typeof UserTokenType]

const POLICY_NONE = 'http://opcfoundation.org/UA/SecurityPolicy#None'
/** The policies that are not deprecated (OPC 10000-7), the strongest last. */
const POLICIES = ['Basic256Sha256', 'Aes128_Sha256_RsaOaep', 'Aes256_Sha256_RsaPss'].map(
  (name) => `http://opcfoundation.org/UA/SecurityPolicy#${name}`,
)

interface EndpointRequirements {
  readonly userToken: UserTokenType
  /** Whether a password may be sent in clear text if no endpoint takes it encrypted. */
  readonly allowUnencryptedPasswords: boolean
  /** Whether a server with this certificate (DER, followed by its issuers) may get a credential. */
  readonly isTrusted: (serverCertificate: Buffer) => boolean
}

type EndpointChoice =
  | {
      readonly kind: 'endpoints'
      /** At least one endpoint, the most secure first. */
      readonly endpoints: readonly EndpointDescription[]
    }
  | {
      readonly kind: 'none'
      /**
       * `user-token`: no endpoint takes the kind of credential. `security`: no endpoint is secure
       * enough. `trust`: no endpoint has a trusted certificate.
       */
      readonly missing: 'user-token' | 'security' | 'trust'
    }

/**
 * The endpoints for a session, the most secure first. A session without a credential can use any
 * endpoint. A password needs encryption, and any credential needs a trusted certificate.
 * `allowUnencryptedPasswords` applies only to a server without an encrypted endpoint. The result
 * never mixes secure and insecure endpoints: an attacker must not force a fallback by disturbing a
 * secure connection.
 */
export function chooseEndpoints(
  endpoints: readonly EndpointDescription[],
  { userToken, allowUnencryptedPasswords, isTrusted }: EndpointRequirements,
): EndpointChoice {
  const matching = endpoints.filter(
    ({ endpointUrl, userTokenTypes }) =>
      /^opc\.tcp:/i.test(endpointUrl) && userTokenTypes.includes(userToken),
  )
  if (matching.length === 0) return { kind: 'none', missing: 'user-token' }
  const usable = matching
    .filter((endpoint) => isUnsecured(endpoint) || isSecured(endpoint))
    .sort((a, b) => rank(b) - rank(a))
  if (userToken === UserTokenType.anonymous) return choiceOf(usable, 'security')
  const minimum =
    userToken === UserTokenType.password ? SecurityMode.signAndEncrypt : SecurityMode.sign
  const secure = usable.filter(
    (endpoint) => isSecured(endpoint) && endpoint.securityMode >= minimum,
  )
  if (secure.length > 0) {
    const trusted = secure.filter(({ serverCertificate }) => isTrusted(serverCertificate))
    return choiceOf(trusted, 'trust')
  }
  const mayBeUnsecured = userToken === UserTokenType.password && allowUnencryptedPasswords
  return choiceOf(mayBeUnsecured ? usable.filter(isUnsecured) : [], 'security')
}

/** @param missing what is missing if there is no endpoint */
function choiceOf(
  endpoints: readonly EndpointDescription[],
  missing: 'security' | 'trust',
): EndpointChoice {
  return endpoints.length > 0 ? { kind: 'endpoints', endpoints } : { kind: 'none', missing }
}

function isUnsecured({ securityMode, securityPolicyUri }: EndpointDescription): boolean {
  return securityMode === SecurityMode.none && securityPolicyUri === POLICY_NONE
}

export function isSecured({
  securityMode,
  securityPolicyUri,
  serverCertificate,
}: EndpointDescription): boolean {
  const isSigned =
    securityMode === SecurityMode.sign || securityMode === SecurityMode.signAndEncrypt
  return isSigned && POLICIES.includes(securityPolicyUri) && serverCertificate.length > 0
}

function rank({ securityMode, securityPolicyUri }: EndpointDescription): number {
  return securityMode * POLICIES.length + POLICIES.indexOf(securityPolicyUri)
}
