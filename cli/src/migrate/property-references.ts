import { isRecord, valueAt } from '@akrijs/runtime'

/** The namespace that a reference without a namespace means in the existing system. */
const REFERENCE_DEFAULT = 'default'

const KINDS = { secretKeyRef: 'Secret', configMapKeyRef: 'ConfigMap' } as const

/** A Secret or a ConfigMap that a property of a Configuration comes from. */
export interface PropertyReference {
  readonly property: string
  readonly kind: (typeof KINDS)[keyof typeof KINDS]
  readonly name: string
  /** @default the namespace of the Configuration; in the existing system `default` */
  readonly namespace?: string
  /** Of the reference, in the Configuration. */
  readonly path: readonly string[]
}

/** @param spec of a Configuration, which need not be valid */
export function propertyReferences(spec: unknown): PropertyReference[] {
  const properties = valueAt(spec, 'discoveryHandler', 'discoveryProperties')
  if (!Array.isArray(properties)) return []
  return properties.flatMap((property: unknown, index) =>
    Object.entries(KINDS).flatMap(([field, kind]): PropertyReference[] => {
      const reference = valueAt(property, 'valueFrom', field)
      if (!isRecord(reference)) return []
      const { name, namespace } = reference
      const at = ['discoveryHandler', 'discoveryProperties', `${index}`, 'valueFrom', field]
      return [
        {
          property: String(valueAt(property, 'name')),
          kind,
          name: String(name),
          ...(typeof namespace === 'string' ? { namespace } : {}),
          path: ['spec', ...at],
        },
      ]
    }),
  )
}

/** Whether both systems find another object by a reference. */
export function isAmbiguous(reference: PropertyReference, namespace: string): boolean {
  return reference.namespace === undefined && namespace !== REFERENCE_DEFAULT
}

export function ambiguityText({ property, kind, name }: PropertyReference, namespace: string) {
  return (
    `its property ${property} names the ${kind} ${name} without a namespace: the existing system ` +
    `takes that of ${REFERENCE_DEFAULT}, akri.js that of ${namespace}`
  )
}
