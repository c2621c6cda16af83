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
    return 'valueFrom' in property ? referenceIn(property.valueFrom, configuration).reference : []
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
      const { name, value } = property
      values.push([name, value === undefined ? undefined : Buffer.from(value)])
      continue
    }
    const { reference, selector } = referenceIn(property.valueFrom, configuration)
    const { kind, key } = reference
    const data = await lookUp(reference)
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

function referenceIn(
  from: ValueFrom,
  { metadata }: Configuration,
): { reference: DataReference; selector: KeySelector } {
  const kind = 'secretKeyRef' in from ? 'Secret' : 'ConfigMap'
  const selector = 'secretKeyRef' in from ? from.secretKeyRef : from.configMapKeyRef
  const key = objectKey(selector.namespace ?? metadata.namespace, selector.name)
  return { reference: { kind, key }, selector }
}
