import { READABLE_FROM_ANNOTATION } from '@akrijs/api'
import { fieldOf, valueAt } from '@akrijs/runtime'

const PATH = ['spec', 'discoveryHandler', 'discoveryProperties']

const KINDS = [
  ['secretKeyRef', 'Secret'],
  ['configMapKeyRef', 'ConfigMap'],
] as const

/**
 * Warns of references to other namespaces. Only the object shows whether it consents, and the
 * webhook may read no object: the agents refuse a reference without consent.
 * @param namespace of the Configuration
 */
export function referenceWarnings(object: unknown, namespace: string): string[] {
  const properties = valueAt(object, ...PATH)
  if (!Array.isArray(properties)) return []
  let first: string | undefined
  let others = 0
  for (const [index, property] of properties.entries()) {
    const from = fieldOf(property, 'valueFrom')
    if (from === undefined) continue
    for (const [field, kind] of KINDS) {
      const reference = fieldOf(from, field)
      const home = fieldOf(reference, 'namespace')
      if (typeof home !== 'string' || home === namespace) continue
      if (first !== undefined) others++
      else
        first = `${PATH.join('.')}[${index}]: ${kind} ${home}/${String(fieldOf(reference, 'name'))}`
    }
  }
  if (first === undefined) return []
  const more = others === 0 ? '' : `, and ${others} more`
  return [
    `refused unless annotation ${READABLE_FROM_ANNOTATION} names ${namespace}: ${first}${more}`,
  ]
}
