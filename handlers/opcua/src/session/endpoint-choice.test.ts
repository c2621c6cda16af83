import { describe, expect, it } from 'vitest'
import type { EndpointDescription } from '../ua-tcp/index.js'
import { chooseEndpoints, UserTokenType } from './endpoint-choice.js'

const certificate = Buffer.from('a certificate')
const { anonymous, password, certificate: userCertificate } = UserTokenType

/** `SignAndEncrypt Basic256Sha256` */
function endpoint(
  security: string,
  change: Partial<EndpointDescription> = {},
): EndpointDescription {
  const [mode = '', policy = ''] = security.split(' ')
  return {
    endpointUrl: 'opc.tcp://plc1:4840',
    server: {
      applicationUri: '',
      productUri: '',
      applicationName: '',
      applicationType: 0,
      discoveryUrls: [],
    },
    serverCertificate: policy === 'None' ? Buffer.alloc(0) : certificate,
    securityMode: ['None', 'Sign', 'SignAndEncrypt'].indexOf(mode) + 1,
    securityPolicyUri: `http://opcfoundation.org/UA/SecurityPolicy#${policy}`,
    userTokenTypes: [0, 1, 2],
    ...change,
  }
}

function choose(
  endpoints: readonly EndpointDescription[],
  userToken: UserTokenType,
  {
    allowUnencryptedPasswords = false,
    isTrusted = () => true,
  }: { allowUnencryptedPasswords?: boolean; isTrusted?: () => boolean } = {},
) {
  const choice = chooseEndpoints(endpoints, { userToken, allowUnencryptedPasswords, isTrusted })
  if (choice.kind === 'none') return choice.missing
  return choice.endpoints.map(
    ({ securityMode, securityPolicyUri }) => `${securityMode} ${securityPolicyUri.split('#')[1]}`,
  )
}

const NONE = endpoint('None None')
const SIGN = endpoint('Sign Basic256Sha256')
const ENCRYPT = endpoint('SignAndEncrypt Basic256Sha256')
const BEST = endpoint('SignAndEncrypt Aes256_Sha256_RsaPss')

describe('the choice of an endpoint', () => {
  it('prefers the best security without a credential, and takes insecure endpoints last', () => {
    const all = [
      '1 None',
      '2 Basic256Sha256',
      '3 Basic256Sha256',
      '3 Aes256_Sha256_RsaPss',
    ].reverse()
    expect(choose([NONE, SIGN, BEST, ENCRYPT], anonymous, { isTrusted: () => false })).toEqual(all)
  })

  it('sends a password only encrypted, unless allowed otherwise', () => {
    expect(choose([NONE, SIGN, ENCRYPT], password)).toEqual(['3 Basic256Sha256'])
    expect(choose([NONE, SIGN], password)).toBe('security')
    expect(choose([NONE], password, { allowUnencryptedPasswords: true })).toEqual(['1 None'])
  })

  it('never sends a clear-text password to a server with an encrypted endpoint', () => {
    const told = { allowUnencryptedPasswords: true }
    expect(choose([NONE, ENCRYPT], password, told)).toEqual(['3 Basic256Sha256'])
    expect(choose([NONE, ENCRYPT], password, { ...told, isTrusted: () => false })).toBe('trust')
    // An endpoint without passwords is no alternative for a password.
    const forOthers = endpoint('SignAndEncrypt Basic256Sha256', {
      userTokenTypes: [anonymous, userCertificate],
    })
    expect(choose([NONE, forOthers], password, told)).toEqual(['1 None'])
  })

  it('uses a user certificate only with signed messages', () => {
    expect(choose([NONE, SIGN, ENCRYPT], userCertificate)).toEqual([
      '3 Basic256Sha256',
      '2 Basic256Sha256',
    ])
    expect(choose([NONE], userCertificate, { allowUnencryptedPasswords: true })).toBe('security')
  })

  it('sends no credential without a trusted certificate', () => {
    for (const token of [password, userCertificate])
      expect(choose([NONE, ENCRYPT], token, { isTrusted: () => false })).toBe('trust')
  })

  it('ignores deprecated and unknown policies, and secured endpoints without a certificate', () => {
    const bad = [
      endpoint('SignAndEncrypt Basic128Rsa15'),
      endpoint('SignAndEncrypt Basic256'),
      endpoint('SignAndEncrypt None'),
      endpoint('None Basic256Sha256'),
      endpoint('SignAndEncrypt Future'),
      endpoint('SignAndEncrypt Basic256Sha256', { serverCertificate: Buffer.alloc(0) }),
      endpoint('SignAndEncrypt Basic256Sha256', { securityMode: 7 }),
    ]
    for (const token of [anonymous, password]) expect(choose(bad, token)).toBe('security')
  })

  it('reports that no endpoint takes such a user, or has UA-TCP', () => {
    expect(choose([endpoint('None None', { userTokenTypes: [1] })], anonymous)).toBe('user-token')
    expect(choose([endpoint('None None', { endpointUrl: 'https://plc1' })], anonymous)).toBe(
      'user-token',
    )
    expect(choose([], anonymous)).toBe('user-token')
  })
})
