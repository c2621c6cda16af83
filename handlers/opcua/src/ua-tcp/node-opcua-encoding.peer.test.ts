import {
  ApplicationType,
  BinaryStream,
  encodeExpandedNodeId,
  FindServersOnNetworkResponse,
  FindServersResponse,
  GetEndpointsResponse,
  MessageSecurityMode,
  ServiceFault,
  StatusCodes,
  UserTokenType,
} from 'node-opcua'
import { describe, expect, it } from 'vitest'
import { findServers, findServersOnNetwork, getEndpoints } from './discovery-services.js'

type Response =
  | FindServersOnNetworkResponse
  | FindServersResponse
  | GetEndpointsResponse
  | ServiceFault

/** The bytes that node-opcua sends. */
function encode(response: Response): Buffer {
  const stream = new BinaryStream(10_000)
  const { encodingDefaultBinary } = response.schema
  if (encodingDefaultBinary === undefined)
    throw new TypeError(`${response.schema.name} has no encoding`)
  encodeExpandedNodeId(encodingDefaultBinary, stream)
  response.encode(stream)
  return stream.buffer.subarray(0, stream.length)
}

const responseHeader = {
  requestHandle: 1,
  serviceResult: StatusCodes.Good,
  stringTable: ['a', 'b'],
  timestamp: new Date(),
}
const server = {
  applicationUri: 'urn:plc1',
  productUri: 'urn:product',
  applicationName: { text: 'PLC 1', locale: 'en' },
  applicationType: ApplicationType.Server,
  gatewayServerUri: null,
  discoveryProfileUri: 'profile',
  discoveryUrls: ['opc.tcp://plc1:4840', 'https://plc1'],
}
const read = {
  applicationUri: 'urn:plc1',
  productUri: 'urn:product',
  applicationName: 'PLC 1',
  applicationType: 0,
  discoveryUrls: ['opc.tcp://plc1:4840', 'https://plc1'],
}

describe('an answer that node-opcua encodes', () => {
  it('is read: FindServersOnNetwork, with and without capabilities', () => {
    const servers = [
      {
        recordId: 1,
        serverName: 'PLC 1',
        discoveryUrl: 'opc.tcp://plc1:4840/ua',
        serverCapabilities: ['DA', 'HD'],
      },
      {
        recordId: 0xffff_ffff,
        serverName: 'LDS',
        discoveryUrl: 'opc.tcp://lds:4840',
        serverCapabilities: ['LDS'],
      },
      { recordId: 7, serverName: null, discoveryUrl: null, serverCapabilities: null },
    ]
    const response = new FindServersOnNetworkResponse({
      responseHeader,
      lastCounterResetTime: new Date(),
      servers,
    })
    expect(findServersOnNetwork.decodeResponse(encode(response))).toEqual([
      {
        serverName: 'PLC 1',
        discoveryUrl: 'opc.tcp://plc1:4840/ua',
        serverCapabilities: ['DA', 'HD'],
      },
      { serverName: 'LDS', discoveryUrl: 'opc.tcp://lds:4840', serverCapabilities: ['LDS'] },
      { serverName: '', discoveryUrl: '', serverCapabilities: [] },
    ])
  })

  it('is read: FindServers and GetEndpoints', () => {
    expect(
      findServers.decodeResponse(
        encode(new FindServersResponse({ responseHeader, servers: [server] })),
      ),
    ).toEqual([read])
    const endpoint = {
      endpointUrl: 'opc.tcp://plc1:4840/ua',
      server,
      serverCertificate: Buffer.from('certificate'),
      securityMode: MessageSecurityMode.SignAndEncrypt,
      securityPolicyUri: 'http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256',
      userIdentityTokens: [
        { tokenType: UserTokenType.UserName, policyId: 'user' },
        { tokenType: UserTokenType.Anonymous },
      ],
      securityLevel: 5,
    }
    expect(
      getEndpoints.decodeResponse(
        encode(new GetEndpointsResponse({ responseHeader, endpoints: [endpoint] })),
      ),
    ).toEqual([
      {
        endpointUrl: 'opc.tcp://plc1:4840/ua',
        server: read,
        serverCertificate: Buffer.from('certificate'),
        securityMode: 3,
        securityPolicyUri: 'http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256',
        userTokenTypes: [1, 0],
      },
    ])
  })

  it('is read: an unsupported service', () => {
    const fault = new ServiceFault({
      responseHeader: { ...responseHeader, serviceResult: StatusCodes.BadServiceUnsupported },
    })
    expect(() => findServersOnNetwork.decodeResponse(encode(fault))).toThrow(
      expect.objectContaining({
        code: 'AKRI_ERR_OPCUA_SERVICE',
        statusCode: StatusCodes.BadServiceUnsupported.value,
      }),
    )
  })
})
