import type { SlotName } from '@akrijs/kube'
import type { ContainerAllocateResponse } from '@akrijs/proto/device-plugin'
import type { ServedInstance } from '../instances/served-instance.js'

/** What the name of a container's annotation for a slot begins with. */
export const SLOT_ANNOTATION = 'akri.agent.slot-'

/** One slot that a container is given. */
export interface GrantedSlot {
  readonly instance: Pick<ServedInstance, 'digest' | 'device' | 'properties'>
  readonly slot: SlotName
  /** The value of the slot's annotation: the slot, or `C:<virtual id>:<slot>`. */
  readonly annotation: string
}

/**
 * What a container gets for its slots: each property as an environment variable, plain and with the Instance's digest
 * behind it (so that several devices of one kind can be told apart), mounts, device nodes, and an annotation for each slot.
 */
export function containerResponse(granted: readonly GrantedSlot[]): ContainerAllocateResponse {
  const envs: Record<string, string> = {}
  const mounts = new Map<string, ContainerAllocateResponse['mounts'][number]>()
  const devices = new Map<string, ContainerAllocateResponse['devices'][number]>()
  const annotations: Record<string, string> = {}
  // Where several devices say different things of one name or path, the first one counts.
  for (const { instance, slot, annotation } of granted) {
    for (const [name, value] of Object.entries(instance.properties)) {
      if (!Object.hasOwn(envs, name)) envs[name] = value
      envs[`${name}_${instance.digest.toUpperCase()}`] = value
    }
    for (const { containerPath, hostPath, readOnly = false } of instance.device.mounts ?? []) {
      if (!mounts.has(containerPath)) mounts.set(containerPath, { containerPath, hostPath, readOnly })
    }
    for (const spec of instance.device.deviceSpecs ?? []) {
      if (!devices.has(spec.containerPath)) devices.set(spec.containerPath, { ...spec })
    }
    annotations[`${SLOT_ANNOTATION}${slot}`] = annotation
  }
  return { envs, mounts: [...mounts.values()], devices: [...devices.values()], annotations, cdiDevices: [] }
}
