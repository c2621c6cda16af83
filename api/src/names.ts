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

/** The kubelet refuses the name of a resource with more characters after `akri.sh/`. */
export const MAX_RESOURCE_NAME = 63

/**
 * The name of an Instance: its Configuration, and the digest of its device. The digest has 6
 * hexadecimal digits, or 16 if another device of the Configuration has the same 6.
 */
const INSTANCE_NAME = /^(.+)-([0-9a-f]{6}|[0-9a-f]{16})$/

/** The name of a slot: its Instance and its index. */
const SLOT_NAME = /^(.+)-(?:0|[1-9][0-9]{0,8})$/

interface InstanceNameParts {
  readonly configuration: ConfigurationName
  readonly digest: string
}

/**
 * The parts of the name of an Instance; undefined if no Instance could have this name. A
 * Configuration can have it too: the name alone does not tell.
 */
export function instanceNameParts(name: string): InstanceNameParts | undefined {
  const [, configuration, digest] = INSTANCE_NAME.exec(name) ?? []
  return configuration === undefined || digest === undefined
    ? undefined
    : { configuration: configuration as ConfigurationName, digest }
}

/** Whether an Instance of this name has it because another device has the same short digest. */
export function hasLongDigest(name: InstanceName): boolean {
  return instanceNameParts(name)?.digest.length === 16
}

/**
 * The name of a Configuration that could have an Instance of this name; undefined if none could.
 * The names of resources have no namespace, and do not tell Instances from Configurations.
 */
export function possibleOwner(name: string): ConfigurationName | undefined {
  return instanceNameParts(name)?.configuration
}

/** The Instance and the Configuration of a slot; undefined if no slot could have this name. */
export function slotNameParts(
  slot: string,
): { readonly instance: InstanceName; readonly configuration: ConfigurationName } | undefined {
  const [, instance = ''] = SLOT_NAME.exec(slot) ?? []
  const configuration = possibleOwner(instance)
  return configuration && { instance: instance as InstanceName, configuration }
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
