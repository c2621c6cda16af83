import {
  type Configuration,
  isReadableFrom,
  type KeyedData,
  type KeySelector,
  READABLE_FROM_ANNOTATION,
} from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { DiscoveryProperties } from '@akrijs/sdk/handler'
import {
  MissingPropertyError,
  PropertyForbiddenError,
  PropertyRefusedError,
  PropertyUnreadableError,
} from '../errors.js'

/** A Secret or ConfigMap from which a Configuration takes a property. */
export interface DataReference {
  readonly kind: KeyedData['kind']
  readonly key: ObjectKey
}

/**
 * What a Secret or ConfigMap gives to Configurations: no data if it has more than
 * {@link MAX_OBJECT_BYTES}.
 */
export type ReferencedData = Partial<Pick<KeyedData, 'data' | 'readableFrom'>>

/** The most data of an object, in bytes: an agent keeps it in memory. */
export const MAX_OBJECT_BYTES = 256 * 1024
/**
 * The most data of the properties of a Configuration, in bytes. A handler reads a message of 4 MiB
 * at most, and many small Configurations may refer to the same large objects.
 */
const MAX_PROPERTIES_BYTES = 1024 * 1024

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
 * @param lookUp reads an object; undefined if there is no such object
 * @throws MissingPropertyError naming the missing object or key
 * @throws PropertyRefusedError if an object of another namespace does not consent, or there is too
 * much data
 */
export async function resolveReferences(
  configuration: Configuration,
  lookUp: (reference: DataReference) => Promise<ReferencedData | undefined>,
): Promise<DiscoveryProperties> {
  const values: [string, Uint8Array | undefined][] = []
  for (const property of configuration.spec.discoveryHandler.discoveryProperties) {
    const { name } = property
    if (!('valueFrom' in property)) {
      values.push([name, property.value === undefined ? undefined : Buffer.from(property.value)])
      continue
    }
    const { reference, selector, isForeign } = referenceIn(property.valueFrom, configuration)
    const title = `discovery property ${name}:`
    const text = `${reference.kind} ${reference.key}`
    const object = isForeign
      ? await lookUpForeign(title, reference, configuration, lookUp)
      : await lookUp(reference)
    if (object !== undefined && object.data === undefined)
      throw new PropertyRefusedError(
        `${title} ${text} has more than ${MAX_OBJECT_BYTES} bytes of data; put the key into a ` +
          'smaller object',
      )
    const value = object?.data?.get(selector.key)
    if (value !== undefined) values.push([name, value])
    else if (selector.optional !== true) {
      const missing = object ? `${text} has no key ${selector.key}` : `there is no ${text}`
      throw new MissingPropertyError(`${title} ${missing}`)
    }
  }
  const bytes = values.reduce((sum, [, value]) => sum + (value?.length ?? 0), 0)
  if (bytes > MAX_PROPERTIES_BYTES)
    throw new PropertyRefusedError(
      `the discovery properties have ${bytes} bytes, and may have ${MAX_PROPERTIES_BYTES}`,
    )
  return new DiscoveryProperties(values)
}

const UNAVAILABLE = [MissingPropertyError, PropertyForbiddenError, PropertyUnreadableError]

/**
 * An object of another namespace. Its absence, a missing right of the agent and a missing consent
 * have one message, also for an optional property: an author of Configurations does not find out
 * which objects other namespaces have.
 */
async function lookUpForeign(
  title: string,
  reference: DataReference,
  { metadata: { namespace } }: Configuration,
  lookUp: (reference: DataReference) => Promise<ReferencedData | undefined>,
): Promise<ReferencedData> {
  const object = await lookUp(reference).catch((error: unknown) => {
    if (!UNAVAILABLE.some((kind) => kind.is(error))) throw error
  })
  if (object !== undefined && isReadableFrom(object.readableFrom, namespace)) return object
  const { kind, key } = reference
  throw new PropertyRefusedError(
    `${title} ${kind} ${key} is in another namespace than the Configuration. It counts only if ` +
      `it exists, the agent may read it, and its annotation ${READABLE_FROM_ANNOTATION} names ` +
      namespace,
  )
}

type ValueFrom = { readonly secretKeyRef: KeySelector } | { readonly configMapKeyRef: KeySelector }

function referenceIn(
  from: ValueFrom,
  { metadata }: Configuration,
): { reference: DataReference; selector: KeySelector; isForeign: boolean } {
  const kind = 'secretKeyRef' in from ? 'Secret' : 'ConfigMap'
  const selector = 'secretKeyRef' in from ? from.secretKeyRef : from.configMapKeyRef
  const namespace = selector.namespace ?? metadata.namespace
  const reference = { kind, key: objectKey(namespace, selector.name) } as const
  return { reference, selector, isForeign: namespace !== metadata.namespace }
}
