import { type Brand, type ObjectKey, objectKey } from '@akrijs/kube/objects'

/** The API group of the custom resources, and the prefix of the extended resources that Pods ask for. */
export const GROUP = 'akri.sh'
export const VERSION = 'v0'
export const API_VERSION = `${GROUP}/${VERSION}`

/** What stands in the spec of a broker for the resource that it is to ask for. */
export const PLACEHOLDER = '{{PLACEHOLDER}}'

/** The name of a Configuration, without its namespace. */
export type ConfigurationName = Brand<'ConfigurationName'>
/** `<configuration>-<digest>`. */
export type InstanceName = Brand<'InstanceName'>
/** `<instance>-<index>`. */
export type SlotName = Brand<'SlotName'>
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
