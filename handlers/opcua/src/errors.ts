import { AkriError, defineError } from '@akrijs/sdk'

/** How a peer broke the rules of UA-TCP. */
export type ProtocolFault =
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

/** What answered does not speak UA-TCP, or breaks its rules or our bounds; `fault` says how. */
export class OpcuaProtocolError extends AkriError {
  readonly fault: ProtocolFault

  constructor(fault: ProtocolFault, message: string) {
    super('AKRI_ERR_OPCUA_PROTOCOL', 'transient', message)
    this.name = 'OpcuaProtocolError'
    this.fault = fault
  }
}

/** An OPC UA server answered, but with an error instead of what it was asked for. */
export class OpcuaServiceError extends AkriError {
  /** As OPC 10000-6 has it in its table of status codes. */
  readonly statusCode: number

  constructor(statusCode: number, message: string) {
    super('AKRI_ERR_OPCUA_SERVICE', 'transient', message)
    this.name = 'OpcuaServiceError'
    this.statusCode = statusCode
  }
}

/** There is no connection to an OPC UA server: its name is not known, it refuses, or it hangs up. */
export class OpcuaUnreachableError extends defineError('AKRI_ERR_OPCUA_UNREACHABLE', 'transient') {}

/** An OPC UA server has not answered in full within the time that a question may take. */
export class OpcuaTimeoutError extends defineError('AKRI_ERR_OPCUA_TIMEOUT', 'transient') {}

/** A URL by which no OPC UA server can be called. */
export class OpcuaUrlError extends defineError('AKRI_ERR_OPCUA_URL', 'terminal') {}

/** How far a session with a server has come: `channel` is what it goes over, and is opened before anything is said of a user. */
export type SessionStage = 'channel' | 'session'

/** A session with an OPC UA server did not come about, or broke. */
export class OpcuaSessionError extends AkriError {
  readonly stage: SessionStage

  constructor(stage: SessionStage, message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_OPCUA_SESSION', 'transient', message, options)
    this.name = 'OpcuaSessionError'
    this.stage = stage
  }
}

/** Sessions with OPC UA servers are wanted, and the package that opens them is not installed. */
export class OpcuaClientMissingError extends defineError(
  'AKRI_ERR_OPCUA_CLIENT_MISSING',
  'terminal',
) {}
