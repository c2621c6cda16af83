type Token =
  | { readonly kind: 'character'; readonly character: string }
  /** `?`: a character of one component. */
  | { readonly kind: 'any' }
  /** `*`: characters of one component. */
  | { readonly kind: 'component' }
  /** `**`: characters of several components. */
  | { readonly kind: 'components' }

/**
 * A path or name with wildcards: `?` and `*` stay within a component of a path, `**` does not. The
 * time of a match grows with the length of pattern and text only: handlers choose the texts.
 */
export class Pattern {
  readonly text: string
  readonly #tokens: readonly Token[]

  constructor(text: string) {
    this.text = text
    this.#tokens = tokensOf(text)
  }

  /** Whether the pattern has no wildcard. */
  get isExact(): boolean {
    return this.#tokens.every(({ kind }) => kind === 'character')
  }

  matches(text: string): boolean {
    let states = this.#withoutWildcards(new Set([0]))
    const last = this.#tokens.length - 1
    for (const character of text) {
      // Most rules for names end like this.
      if (this.#tokens[last]?.kind === 'components' && states.has(last)) return true
      const next = new Set<number>()
      for (const at of states) {
        const token = this.#tokens[at]
        if (token !== undefined && accepts(token, character)) next.add(repeats(token) ? at : at + 1)
      }
      states = this.#withoutWildcards(next)
    }
    return states.has(this.#tokens.length)
  }

  /** Adds the states after wildcards that match no character. */
  #withoutWildcards(states: Set<number>): Set<number> {
    // A set also visits what is added during the visit.
    for (const at of states) {
      const token = this.#tokens[at]
      if (token !== undefined && repeats(token)) states.add(at + 1)
    }
    return states
  }
}

function tokensOf(text: string): Token[] {
  return Array.from(text.matchAll(/\*\*|./gsu), ([part]): Token => {
    if (part === '**') return { kind: 'components' }
    if (part === '*') return { kind: 'component' }
    return part === '?' ? { kind: 'any' } : { kind: 'character', character: part }
  })
}

function accepts(token: Token, character: string): boolean {
  if (token.kind === 'components') return true
  return token.kind === 'character' ? token.character === character : character !== '/'
}

function repeats({ kind }: Token): boolean {
  return kind === 'component' || kind === 'components'
}
