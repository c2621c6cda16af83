import type { ContainerAllocateResponse } from '@akrijs/proto/device-plugin'

/** The part of a Pod that the device manager of a kubelet uses. */
export interface SimulatedPod {
  readonly uid: string
  readonly name: string
  readonly namespace: string
  readonly containers: readonly SimulatedContainer[]
}

interface SimulatedContainer {
  readonly name: string
  /** The quantity of each extended resource. */
  readonly resources: Readonly<Record<string, number>>
}

/** The devices of one resource that a container has. */
export interface ContainerAllocation {
  readonly container: string
  readonly resource: string
  readonly ids: readonly string[]
  readonly response: ContainerAllocateResponse
}

export interface AdmittedPod {
  readonly pod: SimulatedPod
  readonly allocations: readonly ContainerAllocation[]
}

/** The options that device plugins give to a container. */
export type ContainerOptions = Pick<
  ContainerAllocateResponse,
  'envs' | 'mounts' | 'devices' | 'annotations'
>

/** Merges allocations as the kubelet does: the first allocation wins. */
export function containerOptions(allocations: readonly ContainerAllocation[]): ContainerOptions {
  const envs = new Map<string, string>()
  const mounts = new Map<string, ContainerAllocateResponse['mounts'][number]>()
  const devices = new Map<string, ContainerAllocateResponse['devices'][number]>()
  const annotations = new Map<string, string>()
  const keep = <T>(map: Map<string, T>, key: string, value: T) => {
    if (!map.has(key)) map.set(key, value)
  }
  for (const { response } of allocations) {
    for (const [name, value] of Object.entries(response.envs)) keep(envs, name, value)
    for (const mount of response.mounts) keep(mounts, mount.containerPath, mount)
    for (const device of response.devices) keep(devices, device.containerPath, device)
    for (const [name, value] of Object.entries(response.annotations)) keep(annotations, name, value)
  }
  return {
    envs: Object.fromEntries(envs),
    mounts: [...mounts.values()],
    devices: [...devices.values()],
    annotations: Object.fromEntries(annotations),
  }
}
