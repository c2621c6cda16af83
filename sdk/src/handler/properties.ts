import { InvalidOptionError } from '@akrijs/runtime'

/**
 * The resolved `discoveryProperties` of a Configuration. For a property without a value `has` is
 * true, and `get` gives undefined.
 *
 * @example
 * const token = properties.text('TOKEN')
 * if (token === undefined) remark('write the token of the hub in discoveryProperties: TOKEN')
 */
export class DiscoveryProperties {
  readonly #values: ReadonlyMap<string, Uint8Array | undefined>

  constructor(values: Iterable<readonly [string, Uint8Array | undefined]> = []) {
    this.#values = new Map(values)
  }

  /**
   * Properties from texts, such as the plain `value`s of a Configuration.
   * @throws InvalidOptionError if a value is no text
   */
  static fromTexts(texts: Readonly<Record<string, string>>): DiscoveryProperties {
    // At run time a test is JavaScript. The entries of a Map are no members.
    if (Symbol.iterator in Object(texts))
      throw new InvalidOptionError('properties are an object of texts; write { name: value }')
    return new DiscoveryProperties(
      Object.entries(texts).map(([name, text]) => [name, Buffer.from(checkText(name, text))]),
    )
  }

  /** The names of all properties. */
  get names(): string[] {
    return [...this.#values.keys()]
  }

  /** Whether the Configuration has the property, with or without a value. */
  has(name: string): boolean {
    return this.#values.has(name)
  }

  /** The value; undefined if it is absent. */
  get(name: string): Uint8Array | undefined {
    return this.#values.get(name)
  }

  /** The value as text; undefined if it is absent or not UTF-8. */
  text(name: string): string | undefined {
    const bytes = this.#values.get(name)
    if (bytes === undefined) return undefined
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    } catch {
      return undefined
    }
  }

  /** Names and values of all properties. */
  entries(): IterableIterator<[string, Uint8Array | undefined]> {
    return this.#values.entries()
  }
}

/** Says nothing of the value, which can be a secret. */
function checkText(name: string, text: unknown): string {
  if (typeof text === 'string') return text
  throw new InvalidOptionError(
    `property ${JSON.stringify(name)} is of type ${typeof text}; it must be a string`,
  )
}
