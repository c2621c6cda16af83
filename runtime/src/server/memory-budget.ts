/** The part of a {@link MemoryBudget} that one request uses. */
export interface MemoryShare {
  /**
   * Sets the bytes that the request has in memory.
   * @returns whether it may have them: else it had to give way
   */
  set(bytes: number): boolean
  /** The request has nothing in memory any more. */
  release(): void
}

interface OpenShare {
  readonly peer: string
  bytes: number
  readonly onRefused: () => void
}

/**
 * Bounds the bytes of all requests in memory: bodies, and answers that clients have not read. When
 * they are too many, the peer with the most bytes loses its largest request. So slow requests of
 * one peer do not keep another peer's out.
 */
export class MemoryBudget {
  readonly #most: number
  readonly #open = new Set<OpenShare>()
  #bytes = 0

  /** @param most in bytes */
  constructor(most: number) {
    this.#most = most
  }

  /** @param onRefused called at most once, also within `set` */
  open(peer: string, onRefused: () => void): MemoryShare {
    const share: OpenShare = { peer, bytes: 0, onRefused }
    this.#open.add(share)
    return {
      set: (bytes) => {
        if (!this.#open.has(share)) return false
        this.#bytes += bytes - share.bytes
        share.bytes = bytes
        while (this.#bytes > this.#most) this.#refuseOne()
        return this.#open.has(share)
      },
      release: () => this.#release(share),
    }
  }

  #refuseOne(): void {
    const ofPeer = new Map<string, number>()
    for (const { peer, bytes } of this.#open) ofPeer.set(peer, (ofPeer.get(peer) ?? 0) + bytes)
    const [[peer] = ['']] = [...ofPeer].sort(([, a], [, b]) => b - a)
    const [largest] = [...this.#open]
      .filter((share) => share.peer === peer)
      .sort((a, b) => b.bytes - a.bytes)
    if (largest === undefined) return
    this.#release(largest)
    largest.onRefused()
  }

  #release(share: OpenShare): void {
    if (this.#open.delete(share)) this.#bytes -= share.bytes
  }
}
