/** The API group of the custom resources, and the prefix of the extended resources that Pods ask for. */
export const GROUP = 'akri.sh'
export const VERSION = 'v0'
export const API_VERSION = `${GROUP}/${VERSION}`

/** What stands in the spec of a broker for the resource that it is to ask for. */
export const PLACEHOLDER = '{{PLACEHOLDER}}'

export type Brand<Name extends string> = string & { readonly __brand: Name }

/** The name of a Configuration, without its namespace. */
export type ConfigurationName = Brand<'ConfigurationName'>
/** `<configuration>-<digest>`. */
export type InstanceName = Brand<'InstanceName'>
/** `<instance>-<index>`. */
export type SlotName = Brand<'SlotName'>
export type NodeName = Brand<'NodeName'>
/** `<namespace>/<name>`. */
export type ObjectKey = Brand<'ObjectKey'>

export function objectKey(namespace: string, name: string): ObjectKey {
  return `${namespace}/${name}` as ObjectKey
}

/** The two parts of a key. The namespace of what has none is empty. */
export function keyParts(key: ObjectKey): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf('/')
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

export function keyOf(object: { readonly metadata: { readonly namespace: string; readonly name: string } }): ObjectKey {
  return objectKey(object.metadata.namespace, object.metadata.name)
}

/** The Configuration that an Instance is of. */
export function configurationOf({
  metadata,
  spec,
}: {
  readonly metadata: { readonly namespace: string }
  readonly spec: { readonly configurationName: ConfigurationName }
}): ObjectKey {
  return objectKey(metadata.namespace, spec.configurationName)
}
