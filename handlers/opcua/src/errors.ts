import { defineError } from '@akrijs/sdk'

/** The rule of UA-TCP, or the limit of this client, that a peer broke. */
type ProtocolFault =
  | 'not-ua-tcp'
  | 'wrong-length'
  | 'negative-length'
  | 'too-many-elements'
  | 'nested-too-deeply'
  | 'unknown-encoding'
  | 'chunk-too-large'
  | 'message-too-large'
  | 'too-many-chunks'
  | 'wrong-sequence-number'
  | 'wrong-request'
  | 'wrong-channel'
  | 'unexpected-message'
  | 'request-too-large'

/** The peer does not speak UA-TCP, breaks its rules, or exceeds a limit; `fault` names the rule. */
export class OpcuaProtocolError extends defineError('AKRI_ERR_OPCUA_PROTOCOL', 'transient') {
  readonly fault: ProtocolFault

  constructor(fault: ProtocolFault, message: string) {
    super(message)
    this.fault = fault
  }
}

/** An OPC UA server answered a service call with an error. */
export class OpcuaServiceError extends defineError('AKRI_ERR_OPCUA_SERVICE', 'transient') {
  /** The number in the table of status codes of OPC 10000-6. */
  readonly statusCode: number

  constructor(statusCode: number, message: string) {
    super(message)
    this.statusCode = statusCode
  }
}

/** No connection to an OPC UA server: unknown host name, connection refused or closed. */
export class OpcuaUnreachableError extends defineError('AKRI_ERR_OPCUA_UNREACHABLE', 'transient') {}

/** An OPC UA server did not complete its answer in time. */
export class OpcuaTimeoutError extends defineError('AKRI_ERR_OPCUA_TIMEOUT', 'transient') {}

/** The handler may not call the addresses of an OPC UA server. */
export class OpcuaAddressError extends defineError('AKRI_ERR_OPCUA_ADDRESS', 'terminal') {}

/** A text is not the URL of an OPC UA server. */
export class OpcuaUrlError extends defineError('AKRI_ERR_OPCUA_URL', 'terminal') {}

/**
 * The step that failed: a client opens the secure channel first, and sends a user only after that.
 */
export type SessionStage = 'channel' | 'session'

/** A session with an OPC UA server could not be opened, or broke. */
export class OpcuaSessionError extends defineError('AKRI_ERR_OPCUA_SESSION', 'transient') {
  readonly stage: SessionStage

  constructor(stage: SessionStage, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.stage = stage
  }
}

/** A Configuration asks for sessions, and the package that opens them is not installed. */
export class OpcuaClientMissingError extends defineError(
  'AKRI_ERR_OPCUA_CLIENT_MISSING',
  'terminal',
) {}
