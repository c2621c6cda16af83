import { type Clock, type Logger, printable, TokenBucket } from '@akrijs/runtime'

// Warnings of an API server: `Warning` headers (RFC 7234, 5.5) with the code 299, such as
// `299 - "would violate PodSecurity"`. A header can hold several, separated by commas.

/** Code, agent, text as a quoted string, and a date that API servers leave out. */
const WARNING = /([0-9]{3}) ([^\s",]+) "((?:[^"\\]|\\.)*)"(?: "[^"]*")?\s*(?:,\s*|$)/gy
const CODE = '299'
/** The longest text, in characters: texts go to the log. */
const MAX_TEXT = 1000
/** The most warnings of one answer that are read. */
const MAX_PER_ANSWER = 20

/**
 * The texts of warnings.
 * @param values `Warning` headers as Node.js gives them: each character is a byte
 */
export function warningsIn(values: readonly string[]): string[] {
  const texts: string[] = []
  for (const value of values)
    for (const [, code, , quoted = ''] of value.matchAll(WARNING)) {
      if (texts.length >= MAX_PER_ANSWER) return texts
      const bytes = Buffer.from(quoted.replace(/\\(.)/g, '$1'), 'latin1')
      const text = printable(bytes.toString('utf8').slice(0, MAX_TEXT))
      if (code === CODE && text !== '') texts.push(text)
    }
  return texts
}

/** Each program shows the warnings of the API server in its log. */
export function warningLogger(log: Logger): (text: string, request: string) => void {
  return (text, request) => log.warn({ text, request }, 'API server warned')
}

/** The most texts that are remembered. */
const MAX_TEXTS = 200
/** The most warnings at once, and the milliseconds between warnings after that. */
const BURST = 50
const REFILL_MS = 10_000

/** Passes each text on once. Texts of webhooks can differ in each answer: a budget bounds them. */
export class ServerWarnings {
  readonly #tell: (text: string, request: string) => void
  readonly #texts = new Set<string>()
  readonly #budget: TokenBucket

  constructor(clock: Clock, tell: (text: string, request: string) => void) {
    this.#tell = tell
    this.#budget = new TokenBucket({ clock, burst: BURST, refillMs: REFILL_MS })
  }

  /** @param request the method and the path that were answered */
  read(values: readonly string[], request: string): void {
    for (const text of warningsIn(values)) {
      const isKnown = this.#texts.delete(text)
      if (!isKnown && this.#budget.take() > 0) continue
      this.#texts.add(text)
      const [oldest] = this.#texts
      if (this.#texts.size > MAX_TEXTS && oldest !== undefined) this.#texts.delete(oldest)
      if (!isKnown) this.#tell(text, request)
    }
  }
}
