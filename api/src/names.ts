import { type Brand, type ObjectKey, objectKey } from '@akrijs/kube/objects'

/**
 * The API group of the custom resources, and the prefix of the extended resources that Pods ask
 * for.
 */
export const GROUP = 'akri.sh'
export const VERSION = 'v0'
export const API_VERSION = `${GROUP}/${VERSION}`

/** In the spec of a broker, this text stands for the name of the resource. */
export const PLACEHOLDER = '{{PLACEHOLDER}}'

/** The name of a Configuration, without its namespace. */
export type ConfigurationName = Brand<'ConfigurationName'>
/** `<configuration>-<digest>`. */
export type InstanceName = Brand<'InstanceName'>
/** `<instance>-<index>`. */
export type SlotName = Brand<'SlotName'>

/** The end of the name of an Instance: a dash and the digest of its device. */
const DIGEST_END = /-[0-9a-f]{6}$/

/**
 * The name of a Configuration that could have an Instance of this name; undefined if none could.
 * The names of resources have no namespace, and do not tell Instances from Configurations.
 */
export function possibleOwner(name: string): ConfigurationName | undefined {
  return DIGEST_END.test(name) ? (name.replace(DIGEST_END, '') as ConfigurationName) : undefined
}

/** The key of the Configuration of an Instance. */
export function configurationOf({
  metadata,
  spec,
}: {
  readonly metadata: { readonly namespace: string }
  readonly spec: { readonly configurationName: ConfigurationName }
}): ObjectKey {
  return objectKey(metadata.namespace, spec.configurationName)
}
