import { messageOf } from '@akrijs/sdk'
import { HostNameError } from '@akrijs/sdk/network'
import {
  OpcuaAddressError,
  OpcuaProtocolError,
  OpcuaServiceError,
  OpcuaTimeoutError,
  OpcuaUnreachableError,
} from './errors.js'

export const HOST_UNKNOWN = 'host name does not resolve'
export const NOT_ALLOWED = 'address not allowed'
const CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  EHOSTUNREACH: 'no route to the address',
  ENETUNREACH: 'no route to the address',
}

/** Why a call failed, in words that are the same for all servers with this reason. */
export function reasonOf(failure: unknown): string {
  if (OpcuaTimeoutError.is(failure)) return 'no answer in time'
  if (OpcuaServiceError.is(failure)) return 'error of the server'
  if (OpcuaAddressError.is(failure)) return NOT_ALLOWED
  if (failure instanceof OpcuaProtocolError)
    return failure.fault === 'not-ua-tcp' ? 'does not speak UA-TCP' : 'breaks the protocol'
  if (!OpcuaUnreachableError.is(failure)) return 'no answer in time'
  const { cause }: { readonly cause?: unknown } = failure
  if (HostNameError.is(cause)) return HOST_UNKNOWN
  const code = /\bE[A-Z]+\b/.exec(messageOf(failure))?.[0] ?? ''
  return CODES[code] ?? 'connection closed'
}
