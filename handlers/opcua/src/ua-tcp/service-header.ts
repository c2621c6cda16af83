import { OpcuaProtocolError, OpcuaServiceError } from '../errors.js'
import type { BinaryReader } from './binary-reader.js'
import type { BinaryWriter } from './binary-writer.js'
import { isBad, statusName } from './status-code.js'

/** The id of its encoding (OPC 10000-6, NodeIds). */
const SERVICE_FAULT = 397

/** A channel has one request only. */
const REQUEST_HANDLE = 1

/** The time after which the server may drop the request, in milliseconds. */
const TIMEOUT_HINT_MS = 10_000

/** OPC 10000-4, 7.33. @param now milliseconds since 1970 */
export function writeRequestHeader(writer: BinaryWriter, now: number): BinaryWriter {
  // Without a session, diagnostics and an audit entry.
  return writer
    .nullNodeId()
    .dateTime(now)
    .uint32(REQUEST_HANDLE)
    .uint32(0)
    .string(null)
    .uint32(TIMEOUT_HINT_MS)
    .nullExtensionObject()
}

/**
 * Reads the type and the header of a response (OPC 10000-4, 7.34), up to the body of the service.
 * @throws OpcuaServiceError if the server answers with an error, as a ServiceFault or otherwise
 */
export function readResponseHeader(reader: BinaryReader, expected: number, service: string): void {
  const type = reader.nodeId()
  if (type !== expected && type !== SERVICE_FAULT) {
    throw new OpcuaProtocolError(
      'unexpected-message',
      `the answer to ${service} has type ${type ?? 'unknown'} instead of ${expected}`,
    )
  }
  reader.dateTime()
  reader.uint32()
  const result = reader.uint32()
  if (type === SERVICE_FAULT || isBad(result)) {
    throw new OpcuaServiceError(result, `the server answered ${service} with ${statusName(result)}`)
  }
  reader.skipDiagnosticInfo()
  reader.array(() => reader.string())
  reader.skipExtensionObject()
}
