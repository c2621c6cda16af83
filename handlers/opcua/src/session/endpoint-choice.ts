// Which endpoint of a server a session is opened at. Without any I/O.
import type { EndpointDescription } from '../ua-tcp/discovery-services.js'

/** OPC 10000-4, 7.20 and 7.40; the numbers are those on the wire. */
export const SecurityMode = { none: 1, sign: 2, signAndEncrypt: 3 } as const
export const UserTokenType = { anonymous: 0, password: 1, certificate: 2 } as const
export type UserTokenType = (typeof UserTokenType)[keyof typeof UserTokenType]

const POLICY_NONE = 'http://opcfoundation.org/UA/SecurityPolicy#None'
/** The ones that are not deprecated (OPC 10000-7), the better ones later. */
const POLICIES = ['Basic256Sha256', 'Aes128_Sha256_RsaOaep', 'Aes256_Sha256_RsaPss'].map(
  (name) => `http://opcfoundation.org/UA/SecurityPolicy#${name}`,
)

export interface EndpointRequirements {
  readonly userToken: UserTokenType
  /** Whether a password may be sent so that everybody on the way can read it, where no endpoint takes it encrypted. */
  readonly allowUnencryptedPasswords: boolean
  /** Whether a credential may be given to a server with this certificate (DER, its issuers behind it). */
  readonly isTrusted: (serverCertificate: Buffer) => boolean
}

export type EndpointChoice =
  | {
      readonly kind: 'endpoints'
      /** The best one first. At least one. */
      readonly endpoints: readonly EndpointDescription[]
    }
  | {
      readonly kind: 'none'
      /** `user-token`: no endpoint takes it. `security`: none is secure enough for it. `trust`: none has a trusted certificate. */
      readonly missing: 'user-token' | 'security' | 'trust'
    }

/**
 * The endpoints that a session can be opened at, those with better security first. Without a credential any will do: there is
 * nothing to lose. A password is only sent encrypted, and any credential only to a server with a trusted certificate. That a
 * password may be sent unencrypted is for a server that takes no other: endpoints without security are never mixed with those
 * that have some, so that nobody can force the one by disturbing the other.
 */
export function chooseEndpoints(
  endpoints: readonly EndpointDescription[],
  wish: EndpointRequirements,
): EndpointChoice {
  const { userToken, allowUnencryptedPasswords, isTrusted } = wish
  const taking = endpoints.filter(
    ({ endpointUrl, userTokenTypes }) =>
      /^opc\.tcp:/i.test(endpointUrl) && userTokenTypes.includes(userToken),
  )
  if (taking.length === 0) return { kind: 'none', missing: 'user-token' }
  const usable = taking
    .filter((endpoint) => isUnsecured(endpoint) || isSecured(endpoint))
    .sort((a, b) => rank(b) - rank(a))
  if (userToken === UserTokenType.anonymous) {
    return usable.length > 0
      ? { kind: 'endpoints', endpoints: usable }
      : { kind: 'none', missing: 'security' }
  }
  const least =
    userToken === UserTokenType.password ? SecurityMode.signAndEncrypt : SecurityMode.sign
  const secure = usable.filter((endpoint) => isSecured(endpoint) && endpoint.securityMode >= least)
  if (secure.length > 0) {
    const trusted = secure.filter(({ serverCertificate }) => isTrusted(serverCertificate))
    return trusted.length > 0
      ? { kind: 'endpoints', endpoints: trusted }
      : { kind: 'none', missing: 'trust' }
  }
  const anyway =
    userToken === UserTokenType.password && allowUnencryptedPasswords
      ? usable.filter(isUnsecured)
      : []
  return anyway.length > 0
    ? { kind: 'endpoints', endpoints: anyway }
    : { kind: 'none', missing: 'security' }
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
