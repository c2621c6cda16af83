/** How often a message over UDP is sent again, and the first and longest wait, in milliseconds. */
export interface RetransmissionParameters {
  readonly repeats: number
  readonly minDelayMs: number
  readonly maxDelayMs: number
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
 * The waits before each repetition: the first is random, each further one twice as long up to the upper delay.
 * @param random of [0, 1)
 */
export function* retransmissions(
  { repeats, minDelayMs, maxDelayMs, upperDelayMs }: RetransmissionParameters,
  random: () => number = Math.random,
): Generator<number, void, void> {
  let wait = minDelayMs + random() * (maxDelayMs - minDelayMs)
  for (let repeat = 0; repeat < repeats; repeat++) {
    yield Math.round(wait)
    wait = Math.min(wait * 2, upperDelayMs)
  }
}
