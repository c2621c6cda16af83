import { OpcuaProtocolError, OpcuaServiceError } from '../errors.js'
import type { BinaryReader } from './binary-reader.js'
import type { BinaryWriter } from './binary-writer.js'
import { isBad, statusName } from './status-code.js'

const SERVICE_FAULT = 397

/** There is one request on each channel. */
const REQUEST_HANDLE = 1

/** How long the server need not bother for longer, in milliseconds. */
const TIMEOUT_HINT_MS = 10_000

/** OPC 10000-4, 7.33. @param now milliseconds since 1970 */
export function writeRequestHeader(writer: BinaryWriter, now: number): BinaryWriter {
  // No session, no diagnostics wanted, no entry for an audit.
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
 * Reads the type and the header of a response (OPC 10000-4, 7.34), up to what is of the service.
 * @throws OpcuaServiceError where the server answers with an error, a ServiceFault or not
 */
export function readResponseHeader(reader: BinaryReader, wanted: number, service: string): void {
  const type = reader.nodeId()
  if (type !== wanted && type !== SERVICE_FAULT) {
    throw new OpcuaProtocolError(
      'unexpected-message',
      `a message of type ${type ?? 'unknown'} answers ${service}, which has type ${wanted}`,
    )
  }
  reader.dateTime()
  reader.uint32()
  const result = reader.uint32()
  if (type === SERVICE_FAULT || isBad(result)) {
    throw new OpcuaServiceError(result, `the server answers ${service} with ${statusName(result)}`)
  }
  reader.skipDiagnosticInfo()
  reader.array(() => reader.string())
  reader.skipExtensionObject()
}
