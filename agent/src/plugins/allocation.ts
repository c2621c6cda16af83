import type { SlotName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { DeviceSpec, Mount } from '@akrijs/sdk/handler'
import type { PluginLevel } from '../report/observer.js'
import type { ChosenSlot } from '../slots/resource.js'

/** The prefix of the name of a container's annotation for a slot. */
export const SLOT_ANNOTATION = 'akri.agent.slot-'

/** The environment variable with the path of the directory for the reports of a broker. */
const DIRECTORY_VARIABLE = 'AKRI_BROKER_INFO_DIRECTORY'
/** That path in the container, before the name of the Instance. */
const DIRECTORY_MOUNT = '/run/akri/'

/**
 * Makes the directories for the reports of brokers: a new directory for each allocation of a slot.
 */
export interface WorkloadDirectoryMaker {
  /** @returns the path on this node; undefined if the directory cannot be made */
  open(instance: ObjectKey, slot: SlotName): Promise<string | undefined>
}

/** The kubelet gives all of this to the container. */
export interface ContainerAllocation {
  readonly envs: Record<string, string>
  readonly mounts: Required<Mount>[]
  readonly devices: DeviceSpec[]
  readonly annotations: Record<string, string>
}

/**
 * The content of a container for its slots: each property as an environment variable, plain and
 * with the digest of the Instance (so that devices of the same kind can be told apart), mounts,
 * device nodes, an annotation for each slot, and a directory for reports.
 * @param directories by slot, the path on this node
 */
export function containerAllocation(
  level: PluginLevel,
  slots: readonly ChosenSlot[],
  directories: ReadonlyMap<SlotName, string | undefined>,
): ContainerAllocation {
  const envs: Record<string, string> = {}
  const mounts = new Map<string, Required<Mount>>()
  const devices = new Map<string, DeviceSpec>()
  const annotations: Record<string, string> = {}
  // If several devices have the same name or path, the first device counts.
  for (const { instance, slot, id } of slots) {
    const directory = directories.get(slot)
    const containerPath = `${DIRECTORY_MOUNT}${instance.name}`
    const reporting = directory === undefined ? {} : { [DIRECTORY_VARIABLE]: containerPath }
    if (directory !== undefined && !mounts.has(containerPath))
      mounts.set(containerPath, { containerPath, hostPath: directory, readOnly: false })
    for (const [name, value] of Object.entries({ ...instance.properties, ...reporting })) {
      if (!Object.hasOwn(envs, name)) envs[name] = value
      envs[`${name}_${instance.digest.toUpperCase()}`] = value
    }
    for (const { readOnly = false, ...mount } of instance.device.mounts ?? []) {
      if (!mounts.has(mount.containerPath)) mounts.set(mount.containerPath, { ...mount, readOnly })
    }
    for (const spec of instance.device.deviceSpecs ?? []) {
      if (!devices.has(spec.containerPath)) devices.set(spec.containerPath, spec)
    }
    annotations[`${SLOT_ANNOTATION}${slot}`] = level === 'instance' ? slot : `C:${id}:${slot}`
  }
  return { envs, mounts: [...mounts.values()], devices: [...devices.values()], annotations }
}
