import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { application, DISCOVERY_SERVER, endpoint } from '../test-peers/simulated-server.js'
import { summarize } from './endpoint-summary.js'

const POLICY = 'http://opcfoundation.org/UA/SecurityPolicy#'
const plc = application({ discoveryUrls: ['opc.tcp://plc1:4840'] })
const certificate = (...content: number[]) =>
  Buffer.from([0x30, 0x82, 0x00, content.length, ...content])
const sha1 = (bytes: Buffer) => createHash('sha1').update(bytes).digest('hex').toUpperCase()

describe('the endpoints of a server', () => {
  it('are summarized in a fixed order', () => {
    const endpoints = [
      endpoint(plc, { securityPolicyUri: `${POLICY}None`, userTokenTypes: [2, 1, 0] }),
      endpoint(plc, {
        securityPolicyUri: `${POLICY}Basic256Sha256`,
        securityMode: 3,
        userTokenTypes: [0, 9],
      }),
      endpoint(plc, { securityPolicyUri: `${POLICY}Aes256_Sha256_RsaPss`, securityMode: 2 }),
    ]
    const summary = summarize(endpoints)
    expect(summary).toEqual({
      application: {
        applicationUri: plc.applicationUri,
        productUri: plc.productUri,
        applicationName: plc.applicationName,
      },
      isDiscoveryServer: false,
      securityPolicies: ['Aes256_Sha256_RsaPss', 'Basic256Sha256', 'None'],
      securityModes: ['None', 'Sign', 'SignAndEncrypt'],
      userTokens: ['Anonymous', 'Certificate', 'UserName'],
      certificateThumbprints: [],
    })
    expect(summarize([...endpoints].reverse())).toEqual(summary)
  })

  it('do not count with other transports, unknown policies or invalid modes', () => {
    const endpoints = [
      endpoint(plc, { endpointUrl: 'https://plc1/', securityPolicyUri: `${POLICY}Https` }),
      endpoint(plc, { securityPolicyUri: 'urn:vendor:policy', securityMode: 0 }),
      endpoint(plc, { securityPolicyUri: `${POLICY}a,b\n`, securityMode: 77 }),
    ]
    expect(summarize(endpoints)).toMatchObject({ securityPolicies: [], securityModes: [] })
  })

  it('of a discovery server give no identity', () => {
    const summary = summarize([endpoint(DISCOVERY_SERVER)])
    expect([summary.application, summary.isDiscoveryServer]).toEqual([undefined, true])
    expect(summarize([]).application).toBeUndefined()
    expect(summarize([]).isDiscoveryServer).toBe(false)
    expect(summarize([endpoint(DISCOVERY_SERVER), endpoint(plc)]).isDiscoveryServer).toBe(false)
  })

  it('may belong to a client that is also a server', () => {
    const both = application({ applicationUri: 'urn:both', applicationType: 2 })
    const uriIn = (...servers: (typeof both)[]) =>
      summarize(servers.map((server) => endpoint(server))).application?.applicationUri
    expect(uriIn(both)).toBe('urn:both')
    expect(uriIn(both, plc)).toBe(plc.applicationUri)
    expect(uriIn(application({ applicationType: 1 }))).toBeUndefined()
  })

  it("have the SHA-1 of the server's certificate, with or without its issuers", () => {
    const [certificateOfServer, issuer] = [certificate(1, 2, 3), certificate(4, 5)]
    const thumbprints = (...certificates: Buffer[]) =>
      summarize(certificates.map((serverCertificate) => endpoint(plc, { serverCertificate })))
        .certificateThumbprints
    expect(thumbprints(certificateOfServer, Buffer.concat([certificateOfServer, issuer]))).toEqual([
      sha1(certificateOfServer),
    ])
    expect(thumbprints(certificateOfServer, issuer)).toEqual(
      [sha1(certificateOfServer), sha1(issuer)].sort(),
    )
    expect(
      thumbprints(
        certificateOfServer.subarray(0, 5),
        Buffer.from('PEM'),
        Buffer.from([0x30]),
        Buffer.from([0x30, 0x80]),
      ),
    ).toEqual([])
  })

  it('may have any bytes as a certificate', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        summarize([endpoint(plc, { serverCertificate: Buffer.from(bytes) })])
        summarize([endpoint(plc, { serverCertificate: Buffer.from([0x30, ...bytes]) })])
      }),
    )
  })
})
