import { type AkriError, messageOf } from '@akrijs/sdk'
import {
  OnvifAddressError,
  OnvifBusyError,
  OnvifCredentialRefusedError,
  OnvifNotAuthorizedError,
  OnvifReplyError,
  OnvifUnreachableError,
} from '../errors.js'
import { MAX_LEFT_OUT } from '../limits.js'

/** Why a device that announced itself is not offered. */
export interface LeftOutCamera {
  /** The UUID, if it is known, and the address that announced it. */
  readonly id: string
  readonly uuid: string | undefined
  readonly source: string
  /** The same words for all cameras with this reason. */
  readonly reason: string
  readonly detail?: string
}

/** Rounds for which a report counts. */
const ROUNDS = 3

/** Devices that are not called: their announcements have to be repeated. */
export class IgnoredAnnouncements {
  readonly #devices = new Map<string, { readonly camera: LeftOutCamera; readonly round: number }>()
  #round = 0

  /** @param uuid undefined if the announcement was not read */
  add(uuid: string | undefined, source: string, reason: string, detail?: string): void {
    const id = idOf(uuid, source)
    if (!this.#devices.has(id) && this.#devices.size >= MAX_LEFT_OUT) return
    const camera = { id, uuid, source, reason, ...(detail !== undefined && { detail }) }
    this.#devices.set(id, { camera, round: this.#round })
  }

  /** Forgets a device that can be called now. */
  delete(uuid: string, source: string): void {
    this.#devices.delete(idOf(uuid, source))
  }

  endRound(): void {
    this.#round++
    for (const [id, { round }] of this.#devices)
      if (round <= this.#round - ROUNDS) this.#devices.delete(id)
  }

  get cameras(): LeftOutCamera[] {
    return [...this.#devices.values()].map(({ camera }) => camera)
  }
}

/** A device whose URLs do not answer as those of a camera. */
export function unanswered(
  uuid: string,
  source: string,
  failures: ReadonlyMap<string, AkriError>,
): LeftOutCamera {
  const details = [...failures].map(([url, error]) => {
    const message = messageOf(error)
    return message.startsWith(new URL(url).origin) ? message : `${url}: ${message}`
  })
  const [first] = failures.values()
  const reason = first === undefined ? 'no answer yet' : reasonOf(first)
  return { id: idOf(uuid, source), uuid, source, reason, detail: details.join('; ') }
}

/** Names a device by its UUID and the address that announced it. */
export function idOf(uuid: string | undefined, source: string): string {
  return uuid === undefined ? source : `${uuid} at ${source}`
}

const NO_CAMERA = 'no answer of a camera'
const CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed',
  EHOSTUNREACH: 'no route to the address',
  ENETUNREACH: 'no route to the address',
}

function reasonOf(error: AkriError): string {
  if (OnvifCredentialRefusedError.is(error)) return 'credential refused'
  if (OnvifBusyError.is(error)) return 'busy'
  const status = /HTTP status \d{3}/.exec(messageOf(error))?.[0]
  if (status !== undefined) return status
  if (OnvifNotAuthorizedError.is(error)) return 'credential required'
  if (OnvifAddressError.is(error)) return 'address not allowed'
  if (!OnvifUnreachableError.is(error)) return NO_CAMERA
  const { cause }: { readonly cause?: unknown } = error
  if (cause instanceof DOMException && cause.name === 'TimeoutError') return 'no answer in time'
  // The message of a reset connection is "socket hang up" or "aborted".
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  // Something answered, by more than a camera sends or by something else than HTTP.
  if (code.startsWith('HPE_') || OnvifReplyError.is(cause)) return NO_CAMERA
  return CODES[code] ?? 'not reachable'
}
