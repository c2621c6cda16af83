import { messageOf, type ReportedDevice } from '@akrijs/sdk'
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

/** An application that is not offered. The id is the URL in the answer that names it. */
export interface LeftOutApplication extends ReportedDevice {
  /** What tells it from another application with this URL: its URI, or its name. */
  readonly application: string
}

/** Applications with one URL, such as `opc.tcp://localhost:4840`, need more in their ids. */
export function withDistinctIds(all: readonly LeftOutApplication[]): ReportedDevice[] {
  const applications = new Map<string, Set<string>>()
  for (const { id, application } of all)
    applications.set(id, (applications.get(id) ?? new Set()).add(application))
  return all.map(({ id, application, ...why }) => ({
    id: (applications.get(id)?.size ?? 0) > 1 ? `${id} (${application})` : id,
    ...why,
  }))
}
