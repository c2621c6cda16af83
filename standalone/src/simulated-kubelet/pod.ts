import type { ContainerAllocateResponse } from '@akrijs/proto/device-plugin'

/** A Pod as far as the kubelet's device manager is concerned. */
export interface SimulatedPod {
  readonly uid: string
  readonly name: string
  readonly namespace: string
  readonly containers: readonly SimulatedContainer[]
}

export interface SimulatedContainer {
  readonly name: string
  /** How many of each extended resource. */
  readonly resources: Readonly<Record<string, number>>
}

/** What a container was given of one resource. */
export interface ContainerAllocation {
  readonly container: string
  readonly resource: string
  readonly ids: readonly string[]
  readonly response: ContainerAllocateResponse
}

/** What a container runs with. */
export interface ContainerOptions {
  readonly envs: Readonly<Record<string, string>>
  readonly mounts: ContainerAllocateResponse['mounts']
  readonly devices: ContainerAllocateResponse['devices']
  readonly annotations: Readonly<Record<string, string>>
}

/** As the kubelet does it: of two resources that say different things the first one counts. */
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
