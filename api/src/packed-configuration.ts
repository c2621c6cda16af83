import { excess, isRecord, valueAt } from '@akrijs/runtime'
import { specExcess } from './configuration-schema.js'

/** A spec with more values is kept as text. */
const MAX_VALUES = 5000

/**
 * A Configuration of a server as it waits for the end of a list. A spec of many values is text:
 * small values take up to thirty times as much memory. A spec that has too much of something is
 * left out.
 */
export class PackedConfiguration {
  readonly metadata: unknown
  readonly status: unknown
  /** What the spec has too much of. */
  readonly excess: string | undefined
  readonly #spec: { readonly text: string } | { readonly value: unknown } | undefined

  constructor({ metadata, spec, status }: Readonly<Record<string, unknown>>) {
    this.metadata = isRecord(metadata)
      ? { ...metadata, managedFields: managersOf(metadata.managedFields) }
      : metadata
    this.status = status
    this.excess = specExcess(spec)
    if (spec === undefined || this.excess !== undefined) return
    const isPacked = excess(spec, MAX_VALUES) !== undefined
    this.#spec = isPacked ? { text: JSON.stringify(spec) } : { value: spec }
  }

  /** The object of the server, without what no program of ours reads. */
  get unpacked(): object {
    const { metadata, status } = this
    const spec = this.#spec
    return {
      ...(metadata !== undefined && { metadata }),
      ...(status !== undefined && { status }),
      ...(spec && { spec: 'text' in spec ? JSON.parse(spec.text) : spec.value }),
    }
  }
}

/** Their fields can be as large as the spec. */
function managersOf(managedFields: unknown): unknown {
  return Array.isArray(managedFields)
    ? managedFields.map((each) => ({ manager: valueAt(each, 'manager') }))
    : undefined
}

export function packedConfiguration(object: unknown): unknown {
  return isRecord(object) ? new PackedConfiguration(object) : object
}
