// The repetitions of messages over UDP (SOAP-over-UDP of September 2004, appendix I).

/** The number of repetitions. */
export const MULTICAST = 4
export const UNICAST = 2

/** Bounds of the first delay, in milliseconds. */
const FIRST_DELAY = { minMs: 50, maxMs: 250 }
/** The longest delay, in milliseconds. */
const UPPER_DELAY_MS = 500

/**
 * The delay before each repetition, in milliseconds. The first delay is random; each further delay
 * doubles, up to the longest delay.
 * @param random returns numbers of [0, 1)
 */
export function* retransmissions(
  repeats: number,
  random: () => number = Math.random,
): Generator<number, void, void> {
  let delayMs = FIRST_DELAY.minMs + random() * (FIRST_DELAY.maxMs - FIRST_DELAY.minMs)
  for (let repeat = 0; repeat < repeats; repeat++) {
    yield Math.round(delayMs)
    delayMs = Math.min(delayMs * 2, UPPER_DELAY_MS)
  }
}
