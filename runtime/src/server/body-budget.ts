/** The part of a {@link BodyBudget} that one body uses. */
export interface BodyShare {
  /** Counts bytes that have arrived. */
  add(bytes: number): void
  /** Whether the body had to give way. */
  readonly isRefused: boolean
  /** The body is not in memory any more. */
  release(): void
}

interface OpenBody {
  readonly peer: string
  bytes: number
  isRefused: boolean
  readonly onRefused: () => void
}

/**
 * Bounds the bytes of all bodies in memory. When they are too many, the peer with the most bytes
 * loses its largest body. So slow bodies of one peer do not keep another peer's out.
 */
export class BodyBudget {
  readonly #most: number
  readonly #open = new Set<OpenBody>()
  #bytes = 0

  /** @param most in bytes */
  constructor(most: number) {
    this.#most = most
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @param onRefused called at most once, also within `add` */
  open(peer: string, onRefused: () => void): BodyShare {
    const body: OpenBody = { peer, bytes: 0, isRefused: false, onRefused }
    this.#open.add(body)
    return {
      add: (bytes) => {
        if (!this.#open.has(body)) return
        body.bytes += bytes
        this.#bytes += bytes
        while (this.#bytes > this.#most) this.#refuseOne()
      },
      get isRefused() {
        return body.isRefused
      },
      release: () => this.#release(body),
    }
  }

  #refuseOne(): void {
    const ofPeer = new Map<string, number>()
    for (const { peer, bytes } of this.#open) ofPeer.set(peer, (ofPeer.get(peer) ?? 0) + bytes)
    const [[peer] = ['']] = [...ofPeer].sort(([, a], [, b]) => b - a)
    const [largest] = [...this.#open]
      .filter((body) => body.peer === peer)
      .sort((a, b) => b.bytes - a.bytes)
    if (largest === undefined) return
    largest.isRefused = true
    this.#release(largest)
    largest.onRefused()
  }

  #release(body: OpenBody): void {
    if (this.#open.delete(body)) this.#bytes -= body.bytes
  }
}
