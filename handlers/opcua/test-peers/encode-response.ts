import { BinaryWriter } from '../src/ua-tcp/binary-writer.js'
import type {
  ApplicationDescription,
  EndpointDescription,
  ServerOnNetwork,
} from '../src/ua-tcp/discovery-services.js'
import { encodeFrame } from '../src/ua-tcp/frame.js'

// Encodes the responses of discovery services. Tests with third-party servers verify the format.

/** An Acknowledge with these limits: bytes of a buffer, bytes of a message, and chunks. */
export function encodeAcknowledge(bytes = 65_536, message = 0, chunks = 0): Buffer {
  const writer = new BinaryWriter().uint32(0).uint32(bytes).uint32(bytes)
  return encodeFrame('ACK', 'F', writer.uint32(message).uint32(chunks).bytes())
}

export function encodeFault(statusCode: number): Buffer {
  return writeResponseHeader(397, statusCode).bytes()
}

export function encodeFindServersResponse(applications: readonly ApplicationDescription[]): Buffer {
  const writer = writeResponseHeader(425)
  return writer.array(applications, (application) => writeApplication(writer, application)).bytes()
}

export function encodeGetEndpointsResponse(endpoints: readonly EndpointDescription[]): Buffer {
  const writer = writeResponseHeader(431)
  return writer.array(endpoints, (endpoint) => writeEndpoint(writer, endpoint)).bytes()
}

export function encodeFindServersOnNetworkResponse(records: readonly ServerOnNetwork[]): Buffer {
  const writer = writeResponseHeader(12_209).dateTime(0)
  return writer
    .array(records, ({ serverName, discoveryUrl, serverCapabilities }) =>
      writer
        .uint32(1)
        .string(serverName)
        .string(discoveryUrl)
        .array(serverCapabilities, (text) => writer.string(text)),
    )
    .bytes()
}

export function encodeOpenSecureChannelResponse(channelId: number, tokenId: number): Buffer {
  const writer = writeResponseHeader(449)
  return writer
    .uint32(0)
    .uint32(channelId)
    .uint32(tokenId)
    .dateTime(0)
    .uint32(60_000)
    .byteString(null)
    .bytes()
}

export function writeResponseHeader(type: number, result = 0): BinaryWriter {
  const writer = new BinaryWriter()
    .nodeId(type)
    .dateTime(Date.now())
    .uint32(1)
    .uint32(result)
    .uint8(0)
  return writer.array([], String).nullExtensionObject()
}

function writeApplication(writer: BinaryWriter, application: ApplicationDescription): void {
  const { applicationUri, productUri, applicationName, applicationType, discoveryUrls } =
    application
  writer
    .string(applicationUri)
    .string(productUri)
    .localizedText(applicationName)
    .uint32(applicationType)
  writer
    .string(null)
    .string(null)
    .array(discoveryUrls, (url) => writer.string(url))
}

function writeEndpoint(writer: BinaryWriter, endpoint: EndpointDescription): void {
  writer.string(endpoint.endpointUrl)
  writeApplication(writer, endpoint.server)
  writer
    .byteString(endpoint.serverCertificate)
    .uint32(endpoint.securityMode)
    .string(endpoint.securityPolicyUri)
  writer.array(endpoint.userTokenTypes, (type) =>
    writer.string('').uint32(type).string(null).string(null).string(null),
  )
  writer.string('http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary').uint8(0)
}
