import { createHash } from 'node:crypto'
import type { Clock, Logger } from '@akrijs/sdk'
import { type Datagram, SourceLimit } from '@akrijs/sdk/network'
import { DATAGRAMS, DATAGRAMS_PER_CAMERA, ROUND_MS } from '../limits.js'
import { MAX_DATAGRAM_BYTES } from './message.js'

export interface DatagramFilterOptions {
  /** Whether datagrams from this address are read. */
  readonly allows: (address: string) => boolean
  /** Takes the address of a device that announces itself from an address that is not allowed. */
  readonly onForeign: (address: string) => void
  /** Takes the address of a device whose announcement cannot be read, and what is wrong. */
  readonly onUnreadable: (address: string, detail: string) => void
  /**
   * The number of known and of directly probed cameras at an address: their datagrams are read
   * during any flood.
   */
  readonly camerasAt: (address: string) => number
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Tags, attributes and references of a datagram that counts as one: those of cameras have half as
 * many.
 */
const MARKUP_PER_DATAGRAM = 128
/** Parts of the actions of the messages by which devices announce themselves. */
const PROBE_MATCHES = Buffer.from('/ProbeMatches')
const HELLO = Buffer.from('/Hello')
const MAX_FRONT_BYTES = 4096

/**
 * Decides which datagrams are read: a flood must not cost all of the processor, or hide known
 * cameras.
 */
export class DatagramFilter {
  readonly #options: DatagramFilterOptions
  readonly #limit: SourceLimit
  #dropped = 0
  /** Digests of the datagrams of this round. */
  #digests = new Set<string>()
  /**
   * Those of the last round: a repetition of an old Bye must not count as a new Bye, after a Hello.
   */
  #lastDigests = new Set<string>()

  constructor(options: DatagramFilterOptions) {
    this.#options = options
    this.#limit = new SourceLimit({
      ...DATAGRAMS,
      roundMs: ROUND_MS,
      reservedFor: (address) => DATAGRAMS_PER_CAMERA * options.camerasAt(address),
    })
  }

  beginRound(): void {
    this.#lastDigests = this.#digests
    this.#digests = new Set()
    if (this.#dropped > 0) this.#options.log.warn({ dropped: this.#dropped }, 'datagrams dropped')
    this.#dropped = 0
  }

  accepts({ bytes, address }: Datagram): boolean {
    const { allows, onForeign, onUnreadable, clock } = this.#options
    if (!allows(address)) {
      if (isAnnouncement(bytes)) onForeign(address)
      return false
    }
    if (bytes.length > MAX_DATAGRAM_BYTES) {
      onUnreadable(address, `the datagram has more than ${MAX_DATAGRAM_BYTES} bytes`)
      return false
    }
    // Most datagrams are repetitions: a digest costs a fraction of parsing.
    const digest = createHash('sha1').update(address).update(bytes).digest('base64')
    if (this.#digests.has(digest) || this.#lastDigests.has(digest)) return false
    if (!this.#limit.take(address, costOf(bytes), clock.monotonicMs())) {
      this.#dropped++
      return false
    }
    this.#digests.add(digest)
    return true
  }
}

/** The action stands at the front of a message. A search for it costs little during a flood. */
export function isHello(bytes: Buffer): boolean {
  return bytes.subarray(0, MAX_FRONT_BYTES).includes(HELLO)
}

function isAnnouncement(bytes: Buffer): boolean {
  return isHello(bytes) || bytes.subarray(0, MAX_FRONT_BYTES).includes(PROBE_MATCHES)
}

/** The cost of parsing grows with the number of tags, attributes and references. */
function costOf(bytes: Uint8Array): number {
  let markup = 0
  for (const byte of bytes) if (MARKUP.has(byte)) markup++
  return 1 + Math.floor(markup / MARKUP_PER_DATAGRAM)
}

const MARKUP: ReadonlySet<number> = new Set(Buffer.from('<=&'))
