import { AkriError, kindOf } from '@akrijs/runtime'
import type { Device, DeviceReport, DiscoveryProperties } from '@akrijs/sdk/handler'

/** One running copy of a handler: behind a socket, or in this process. */
export interface HandlerEndpoint {
  /** {@link remoteUid}, or {@link embeddedUid}. */
  readonly uid: string
  readonly name: string
  readonly shared: boolean
  /**
   * Yields the complete list, and again after every change, until the signal is aborted.
   * @throws DiscoveryFailedError when the handler is gone or refuses
   */
  discover(request: DiscoverRequest, signal: AbortSignal): AsyncIterable<BoundedList>
  /** Whether no process serves the endpoint; one that hangs has not left. Never rejects. */
  hasLeft?(): Promise<boolean>
}

/** The uid of the endpoint of a registered handler. */
export function remoteUid(handler: string, endpoint: string): string {
  return `${handler}@${endpoint}`
}

/** The uid of a handler in this process. */
export function embeddedUid(handler: string): string {
  return `embedded-${handler}`
}

/** Whether a text can be the name of a handler. */
export function isHandlerName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)
}

/** A text of a handler, for a message: its beginning, if it is long. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
}

/** The name of the handler of an endpoint, also of an endpoint that is gone. */
export function handlerOfUid(uid: string): string {
  const end = uid.indexOf('@')
  return end < 0 ? uid.slice(embeddedUid('').length) : uid.slice(0, end)
}

export interface DiscoverRequest {
  readonly configuration: string
  /** Verbatim from the Configuration. */
  readonly details: string
  readonly properties: DiscoveryProperties
  /** The most devices of one list. */
  readonly mostDevices: number
  /** Of a longer list, devices with smaller ranks are kept, and of one rank the first ids. */
  rank(id: string): number
}

/** A device of a checked list. Equal devices have equal hashes. */
export interface HashedDevice extends Device {
  readonly properties?: Readonly<Record<string, string>>
  readonly hash: string
}

/** A list of a handler, up to the bound of the request. */
export interface BoundedList {
  readonly devices: readonly HashedDevice[]
  /** How many devices are left out. */
  readonly leftOut: number
  /** Devices with a problem, and those that the handler left out; undefined if it cannot tell. */
  readonly reports?: readonly DeviceReport[] | undefined
}

/**
 * `invalid-details`: the Configuration is wrong, and a retry cannot help. `unreachable`: nothing
 * listens at the endpoint. `failed`: the handler reported an error, or its stream broke.
 */
type DiscoveryFailure = 'invalid-details' | 'unreachable' | 'failed'

/** It is a bug if its cause is a bug. */
export class DiscoveryFailedError extends AkriError {
  readonly failure: DiscoveryFailure

  constructor(failure: DiscoveryFailure, message: string, options?: { cause?: unknown }) {
    const kind = failure === 'invalid-details' ? 'terminal' : 'transient'
    const isBug = kindOf(options?.cause) === 'bug'
    super('AKRI_ERR_DISCOVERY_FAILED', isBug ? 'bug' : kind, message, options)
    this.failure = failure
  }
}
