/** The status codes that discovery services return, from OPC 10000-6, A.2. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [0x8001_0000, 'BadUnexpectedError'],
  [0x8002_0000, 'BadInternalError'],
  [0x8003_0000, 'BadOutOfMemory'],
  [0x8004_0000, 'BadResourceUnavailable'],
  [0x8005_0000, 'BadCommunicationError'],
  [0x8006_0000, 'BadEncodingError'],
  [0x8007_0000, 'BadDecodingError'],
  [0x8008_0000, 'BadEncodingLimitsExceeded'],
  [0x8009_0000, 'BadUnknownResponse'],
  [0x800a_0000, 'BadTimeout'],
  [0x800b_0000, 'BadServiceUnsupported'],
  [0x800c_0000, 'BadShutdown'],
  [0x800d_0000, 'BadServerNotConnected'],
  [0x800e_0000, 'BadServerHalted'],
  [0x800f_0000, 'BadNothingToDo'],
  [0x8010_0000, 'BadTooManyOperations'],
  [0x8012_0000, 'BadCertificateInvalid'],
  [0x8013_0000, 'BadSecurityChecksFailed'],
  [0x801f_0000, 'BadUserAccessDenied'],
  [0x8020_0000, 'BadIdentityTokenInvalid'],
  [0x8022_0000, 'BadSecureChannelIdInvalid'],
  [0x8023_0000, 'BadInvalidTimestamp'],
  [0x8040_0000, 'BadNotImplemented'],
  [0x8054_0000, 'BadSecurityModeRejected'],
  [0x8055_0000, 'BadSecurityPolicyRejected'],
  [0x807d_0000, 'BadTcpServerTooBusy'],
  [0x807e_0000, 'BadTcpMessageTypeInvalid'],
  [0x807f_0000, 'BadTcpSecureChannelUnknown'],
  [0x8080_0000, 'BadTcpMessageTooLarge'],
  [0x8081_0000, 'BadTcpNotEnoughResources'],
  [0x8082_0000, 'BadTcpInternalError'],
  [0x8083_0000, 'BadTcpEndpointUrlInvalid'],
  [0x8084_0000, 'BadRequestInterrupted'],
  [0x8085_0000, 'BadRequestTimeout'],
  [0x8086_0000, 'BadSecureChannelClosed'],
  [0x8088_0000, 'BadSequenceNumberInvalid'],
  [0x80ac_0000, 'BadConnectionRejected'],
  [0x80b8_0000, 'BadRequestTooLarge'],
  [0x80b9_0000, 'BadResponseTooLarge'],
])

const SERVICE_UNSUPPORTED = 0x800b_0000
const NOT_IMPLEMENTED = 0x8040_0000

/** Returns a text such as `BadServiceUnsupported (0x800b0000)`. */
export function statusName(code: number): string {
  const number = `0x${code.toString(16).padStart(8, '0')}`
  // The lower half contains flags.
  const name = NAMES.get((code & 0xffff_0000) >>> 0)
  return name === undefined ? number : `${name} (${number})`
}

/** The upper two bits hold the severity: 00 good, 01 uncertain, 10 bad. */
export function isBad(code: number): boolean {
  return code >>> 31 === 1
}

/** Whether the server does not implement the service. */
export function isUnsupported(code: number): boolean {
  return [SERVICE_UNSUPPORTED, NOT_IMPLEMENTED].includes((code & 0xffff_0000) >>> 0)
}
