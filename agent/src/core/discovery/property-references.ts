import type { Configuration, KeyedData, KeySelector } from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { DiscoveryProperties } from '@akrijs/runtime/handler'
import { MissingPropertyError } from '../../errors.js'

/** A Secret or ConfigMap from which a Configuration takes a property. */
export interface DataReference {
  readonly kind: KeyedData['kind']
  readonly key: ObjectKey
}

/** A key that is unique over both kinds. */
export function referenceText({ kind, key }: DataReference): string {
  return `${kind}/${key}`
}

/** @returns the objects that the properties of a Configuration name */
export function referencesOf(configuration: Configuration): DataReference[] {
  return configuration.spec.discoveryHandler.discoveryProperties.flatMap((property) => {
    if (!('valueFrom' in property)) return []
    const { kind, selector } = selectorOf(property.valueFrom)
    return [{ kind, key: whereOf(selector, configuration) }]
  })
}

/**
 * The properties of a Configuration as the handler receives them.
 * @param lookUp the data of an object; undefined if there is no such object
 * @throws MissingPropertyError naming the missing object or key
 */
export async function resolveReferences(
  configuration: Configuration,
  lookUp: (reference: DataReference) => Promise<ReadonlyMap<string, Uint8Array> | undefined>,
): Promise<DiscoveryProperties> {
  const values: [string, Uint8Array | undefined][] = []
  for (const property of configuration.spec.discoveryHandler.discoveryProperties) {
    if (!('valueFrom' in property)) {
      values.push([
        property.name,
        property.value === undefined ? undefined : Buffer.from(property.value),
      ])
      continue
    }
    const { kind, selector } = selectorOf(property.valueFrom)
    const key = whereOf(selector, configuration)
    const data = await lookUp({ kind, key })
    const value = data?.get(selector.key)
    if (value !== undefined) values.push([property.name, value])
    else if (selector.optional !== true) {
      const missing =
        data === undefined
          ? `there is no ${kind} ${key}`
          : `${kind} ${key} has no key ${selector.key}`
      throw new MissingPropertyError(`discovery property ${property.name}: ${missing}`)
    }
  }
  return new DiscoveryProperties(values)
}

type ValueFrom = { readonly secretKeyRef: KeySelector } | { readonly configMapKeyRef: KeySelector }

function selectorOf(from: ValueFrom): { kind: KeyedData['kind']; selector: KeySelector } {
  return 'secretKeyRef' in from
    ? { kind: 'Secret', selector: from.secretKeyRef }
    : { kind: 'ConfigMap', selector: from.configMapKeyRef }
}

function whereOf({ namespace, name }: KeySelector, { metadata }: Configuration): ObjectKey {
  return objectKey(namespace ?? metadata.namespace, name)
}
