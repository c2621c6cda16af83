import { BinaryReader } from './binary-reader.js'
import { BinaryWriter } from './binary-writer.js'
import type { UaTcpLimits } from './limits.js'
import { readResponseHeader, writeRequestHeader } from './service-header.js'

/** OPC 10000-4, 7.4; the numbers appear on the wire. */
export const ApplicationType = {
  server: 0,
  client: 1,
  clientAndServer: 2,
  discoveryServer: 3,
} as const

/** OPC 10000-4, 7.2. */
export interface ApplicationDescription {
  readonly applicationUri: string
  readonly productUri: string
  readonly applicationName: string
  /** One of {@link ApplicationType}, or an invalid number. */
  readonly applicationType: number
  readonly discoveryUrls: readonly string[]
}

/** OPC 10000-4, 7.14. */
export interface EndpointDescription {
  readonly endpointUrl: string
  readonly server: ApplicationDescription
  /** DER, optionally followed by the issuers; empty without a certificate. */
  readonly serverCertificate: Buffer
  /** 1 None, 2 Sign, 3 SignAndEncrypt; any other number is invalid. */
  readonly securityMode: number
  readonly securityPolicyUri: string
  /** 0 Anonymous, 1 UserName, 2 Certificate, 3 IssuedToken. */
  readonly userTokenTypes: readonly number[]
}

/** OPC 10000-4, 7.36: a server that a discovery server found by mDNS. */
export interface ServerOnNetwork {
  readonly serverName: string
  readonly discoveryUrl: string
  readonly serverCapabilities: readonly string[]
}

/** A service that needs neither security nor a session. */
export interface DiscoveryService<Answer> {
  /** @param now milliseconds since 1970 */
  encodeRequest(endpointUrl: string, now: number): Buffer
  /** @throws OpcuaProtocolError, OpcuaServiceError */
  decodeResponse(bytes: Buffer, limits?: Pick<UaTcpLimits, 'elements'>): Answer
}

/**
 * OPC 10000-4, 5.5.2. A server with several networks may choose its URLs by the URL of the request.
 */
export const findServers = findServersService((endpointUrl) => endpointUrl)

/** FindServers without the URL of the request: a discovery server returns the registered URLs. */
export const findServersAsRegistered = findServersService(() => null)

function findServersService(urlFor: (endpointUrl: string) => string | null) {
  return service('FindServers', {
    request: 422,
    // No filter by language or server.
    write: (writer, endpointUrl) =>
      writer.string(urlFor(endpointUrl)).array([], String).array([], String),
    response: 425,
    read: (reader) => reader.array(() => readApplication(reader)),
  })
}

/** OPC 10000-4, 5.5.4. */
export const getEndpoints = service('GetEndpoints', {
  request: 428,
  // No filter by language or transport.
  write: (writer, endpointUrl) => writer.string(endpointUrl).array([], String).array([], String),
  response: 431,
  read: (reader) => reader.array(() => readEndpoint(reader)),
})

/** The requested number of records, below the limit of array elements. */
const MAX_RECORDS = 1000

/** OPC 10000-4, 5.5.3. Only discovery servers with the multicast extension (LDS-ME) have it. */
export const findServersOnNetwork = service('FindServersOnNetwork', {
  request: 12_208,
  // All records from the first, with any capabilities.
  write: (writer) => writer.uint32(0).uint32(MAX_RECORDS).array([], String),
  response: 12_209,
  read: (reader) => {
    reader.dateTime()
    return reader.array(() => readServerOnNetwork(reader))
  },
})

/** The numbers of the two messages (OPC 10000-6, annex A), and what follows their headers. */
interface Messages<Answer> {
  readonly request: number
  write(writer: BinaryWriter, endpointUrl: string): BinaryWriter
  readonly response: number
  read(reader: BinaryReader): Answer
}

function service<Answer>(
  name: string,
  { request, write, response, read }: Messages<Answer>,
): DiscoveryService<Answer> {
  return {
    encodeRequest: (endpointUrl, now) =>
      write(writeRequestHeader(new BinaryWriter().nodeId(request), now), endpointUrl).bytes(),
    decodeResponse: (bytes, limits) => {
      const reader = new BinaryReader(bytes, limits)
      readResponseHeader(reader, response, name)
      return read(reader)
    },
  }
}

function readServerOnNetwork(reader: BinaryReader): ServerOnNetwork {
  reader.uint32() // recordId
  const serverName = reader.string()
  const discoveryUrl = reader.string()
  return { serverName, discoveryUrl, serverCapabilities: reader.array(() => reader.string()) }
}

function readApplication(reader: BinaryReader): ApplicationDescription {
  const applicationUri = reader.string()
  const productUri = reader.string()
  const applicationName = reader.localizedText()
  const applicationType = reader.uint32()
  reader.string() // gatewayServerUri
  reader.string() // discoveryProfileUri
  return {
    applicationUri,
    productUri,
    applicationName,
    applicationType,
    discoveryUrls: reader.array(() => reader.string()),
  }
}

function readEndpoint(reader: BinaryReader): EndpointDescription {
  const endpointUrl = reader.string()
  const server = readApplication(reader)
  const serverCertificate = reader.byteString()
  const securityMode = reader.uint32()
  const securityPolicyUri = reader.string()
  const userTokenTypes = reader.array(() => readUserTokenType(reader))
  reader.string() // transportProfileUri
  reader.uint8() // securityLevel
  return { endpointUrl, server, serverCertificate, securityMode, securityPolicyUri, userTokenTypes }
}

function readUserTokenType(reader: BinaryReader): number {
  reader.string() // policyId
  const type = reader.uint32()
  reader.string() // issuedTokenType
  reader.string() // issuerEndpointUrl
  reader.string() // securityPolicyUri
  return type
}
