import type { SlotName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { DeviceSpec, Mount } from '@akrijs/runtime/handler'
import type { ServedInstance } from '../instances/served-instance.js'

/** What the name of a container's annotation for a slot begins with. */
export const SLOT_ANNOTATION = 'akri.agent.slot-'

/** The environment variable that says where a container finds the directory by which it reports. */
const DIRECTORY_VARIABLE = 'AKRI_BROKER_INFO_DIRECTORY'
/** In the container; the Instance's name behind it. */
const DIRECTORY_MOUNT = '/run/akri/'

/** Makes the directory by which a workload reports, for the slot that it is given. */
export interface WorkloadDirectoryMaker {
  /** @returns the path on this node; undefined where it cannot be made, and then there is none */
  open(instance: ObjectKey, slot: SlotName): Promise<string | undefined>
  /** Begins to make it, for a slot that may be given soon; one that is there is left alone. */
  prepare(instance: ObjectKey, slot: SlotName): void
  /** What has been prepared will not be opened. */
  discard(instance: ObjectKey, slot: SlotName): void
}

/** One slot that a container is given. */
export interface GrantedSlot {
  readonly instance: Pick<ServedInstance, 'name' | 'digest' | 'device' | 'properties'>
  readonly slot: SlotName
  /** The value of the slot's annotation: the slot, or `C:<virtual id>:<slot>`. */
  readonly annotation: string
  /** Where on this node its workload may report. */
  readonly directory: string | undefined
}

/** The kubelet gives all of this to the container. */
export interface ContainerAllocation {
  readonly envs: Readonly<Record<string, string>>
  readonly mounts: readonly Required<Mount>[]
  readonly devices: readonly DeviceSpec[]
  readonly annotations: Readonly<Record<string, string>>
}

/**
 * What a container gets for its slots: each property as an environment variable, plain and with the Instance's digest
 * behind it (so that several devices of one kind can be told apart), mounts, device nodes, an annotation for each slot, and
 * a directory by which it reports.
 */
export function containerAllocation(granted: readonly GrantedSlot[]): ContainerAllocation {
  const envs: Record<string, string> = {}
  const mounts = new Map<string, Required<Mount>>()
  const devices = new Map<string, DeviceSpec>()
  const annotations: Record<string, string> = {}
  // Where several devices say different things of one name or path, the first one counts.
  for (const { instance, slot, annotation, directory } of granted) {
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
    annotations[`${SLOT_ANNOTATION}${slot}`] = annotation
  }
  return { envs, mounts: [...mounts.values()], devices: [...devices.values()], annotations }
}
