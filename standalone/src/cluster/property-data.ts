import { isDeepStrictEqual } from 'node:util'
import {
  type DataReference,
  type ObjectCache,
  type ReferencedData,
  referencesOf,
  referenceText,
} from '@akrijs/agent'
import type { Configuration, KeyedData } from '@akrijs/api'
import { keyOf, type ObjectKey, objectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'

/** The Secrets and ConfigMaps of the files: Configurations refer to them. */
export class PropertyData {
  readonly #configurations: Pick<ObjectCache<Configuration>, 'list'>
  readonly #data = new Map<string, KeyedData>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()

  constructor(configurations: Pick<ObjectCache<Configuration>, 'list'>) {
    this.#configurations = configurations
  }

  /** @returns undefined if there is no such object */
  get(reference: DataReference): ReferencedData | undefined {
    return this.#data.get(referenceText(reference))
  }

  /** Replaces objects. @param complete whether all other objects are removed */
  apply(data: readonly KeyedData[], complete: boolean): void {
    const before = new Map(this.#data)
    if (complete) this.#data.clear()
    for (const object of data) {
      const key = objectKey(object.namespace, object.name)
      this.#data.set(referenceText({ kind: object.kind, key }), object)
    }
    const changed = new Set(
      [...before.keys(), ...this.#data.keys()].filter(
        (name) => !isDeepStrictEqual(before.get(name), this.#data.get(name)),
      ),
    )
    if (changed.size === 0) return
    for (const configuration of this.#configurations.list()) {
      if (referencesOf(configuration).some((reference) => changed.has(referenceText(reference))))
        this.#listeners.tell(keyOf(configuration))
    }
  }

  /** Calls back with each Configuration that refers to a changed object. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }
}
