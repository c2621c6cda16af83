/**
 * Annotation of a Secret or ConfigMap: the namespaces, with commas between them, whose
 * Configurations may take properties from the object. `*` stands for all. Names are not patterns.
 */
export const READABLE_FROM_ANNOTATION = 'akri.sh/readable-from'

/** @param annotation undefined if the object has none: it consents to no other namespace */
export function isReadableFrom(annotation: string | undefined, namespace: string): boolean {
  const names = (annotation ?? '').split(',').map((name) => name.trim())
  return names.includes('*') || names.includes(namespace)
}
