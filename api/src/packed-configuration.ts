import { isRecord } from '@akrijs/runtime'
import { specExcess } from './configuration-schema.js'

/**
 * A Configuration of a server as it waits for the end of a list. Its spec is text: small values take
 * up to thirty times as much memory. A spec that has too much of something is left out.
 */
export class PackedConfiguration {
  readonly metadata: unknown
  readonly status: unknown
  /** What the spec has too much of. */
  readonly excess: string | undefined
  readonly #spec: string | undefined

  constructor({ metadata, spec, status }: Readonly<Record<string, unknown>>) {
    this.metadata = isRecord(metadata) ? { ...metadata, managedFields: undefined } : metadata
    this.status = status
    this.excess = specExcess(spec)
    this.#spec = this.excess === undefined ? JSON.stringify(spec) : undefined
  }

  /** The object of the server, without what no program of ours reads. */
  get unpacked(): object {
    const { metadata, status } = this
    return {
      ...(metadata !== undefined && { metadata }),
      ...(status !== undefined && { status }),
      ...(this.#spec !== undefined && { spec: JSON.parse(this.#spec) }),
    }
  }
}

export function packedConfiguration(object: unknown): unknown {
  return isRecord(object) ? new PackedConfiguration(object) : object
}
