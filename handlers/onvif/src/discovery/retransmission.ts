/** How a message over UDP is repeated. */
export interface RetransmissionParameters {
  readonly repeats: number
  /** Bounds of the first delay, in milliseconds. */
  readonly minDelayMs: number
  readonly maxDelayMs: number
  /** The longest delay, in milliseconds. */
  readonly upperDelayMs: number
}

/** SOAP-over-UDP of September 2004, appendix I. */
export const MULTICAST: RetransmissionParameters = {
  repeats: 4,
  minDelayMs: 50,
  maxDelayMs: 250,
  upperDelayMs: 500,
}
export const UNICAST: RetransmissionParameters = { ...MULTICAST, repeats: 2 }

/**
 * The delay before each repetition. The first delay is random; each further delay doubles, up to
 * the upper delay.
 * @param random returns numbers of [0, 1)
 */
export function* retransmissions(
  { repeats, minDelayMs, maxDelayMs, upperDelayMs }: RetransmissionParameters,
  random: () => number = Math.random,
): Generator<number, void, void> {
  let delayMs = minDelayMs + random() * (maxDelayMs - minDelayMs)
  for (let repeat = 0; repeat < repeats; repeat++) {
    yield Math.round(delayMs)
    delayMs = Math.min(delayMs * 2, upperDelayMs)
  }
}
