import { GROUP, type SlotName, slotNameParts } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import {
  type ListPodResourcesResponse,
  PodResourcesListerClient,
} from '@akrijs/proto/pod-resources'
import {
  type Container,
  type ListContainersResponse,
  RuntimeServiceClient,
} from '@akrijs/proto/runtime'
import { SLOT_ANNOTATION } from '../plugins/allocation.js'
import type { Allocations, PodAllocation } from './kubelet.js'
import { LocalService } from './local-service.js'

/** The size limit of a list, in bytes, as in the kubelet's own clients. */
const MAX_LIST_BYTES = 16 * 1024 * 1024
/** `CONTAINER_EXITED` of the container runtime interface. */
const EXITED = 2

/** Reports which containers of this node have which device ids. */
export interface AllocationSource {
  /** @throws KubeletUnavailableError (transient) */
  list(signal: AbortSignal): Promise<Allocations>
}

/** The allocations, from the kubelet's podresources service. */
export class PodResources implements AllocationSource {
  readonly #service: LocalService<PodResourcesListerClient>

  constructor(socket: string) {
    this.#service = new LocalService(PodResourcesListerClient, socket, MAX_LIST_BYTES)
  }

  async list(signal: AbortSignal): Promise<Allocations> {
    const { podResources } = await this.#service.ask<ListPodResourcesResponse>(
      'the kubelet did not list its Pods',
      signal,
      (client, metadata, options, done) => client.list({}, metadata, options, done),
    )
    return byResource(
      podResources.flatMap(({ name, namespace, containers }) => {
        const pod = objectKey(namespace, name)
        return containers.flatMap(({ devices }) =>
          devices.map(({ resourceName, deviceIds }) => {
            return [resourceName, { pod, ids: new Set(deviceIds) }] as const
          }),
        )
      }),
    )
  }
}

/**
 * The allocations, from the annotations of the containers: for kubelets that do not serve
 * podresources. A container that waits for its restart has exited, while its Pod is still there.
 */
export class ContainerRuntime implements AllocationSource {
  readonly #service: LocalService<RuntimeServiceClient>

  constructor(socket: string) {
    this.#service = new LocalService(RuntimeServiceClient, socket, MAX_LIST_BYTES)
  }

  async list(signal: AbortSignal): Promise<Allocations> {
    const { containers } = await this.#service.ask<ListContainersResponse>(
      'the container runtime did not list its containers',
      signal,
      (client, metadata, options, done) => client.listContainers({}, metadata, options, done),
    )
    return byResource(containers.filter(({ state }) => state !== EXITED).flatMap(slotsIn))
  }
}

/**
 * The slots of a container: the annotation `akri.agent.slot-<slot>` has the value `<slot>`, or
 * `C:<virtual id>:<slot>` for the resource of the Configuration.
 */
function slotsIn({ annotations, labels }: Container): [resource: string, PodAllocation][] {
  const pod = objectKey(
    labels['io.kubernetes.pod.namespace'] ?? '',
    labels['io.kubernetes.pod.name'] ?? '',
  )
  return Object.entries(annotations).flatMap(([name, value]) => {
    if (!name.startsWith(SLOT_ANNOTATION)) return []
    const slot = name.slice(SLOT_ANNOTATION.length) as SlotName
    const parts = slotNameParts(slot)
    if (parts === undefined) return []
    const [, virtualId] = /^C:([^:]+):/.exec(value) ?? []
    const id = virtualId ?? slot
    const resource = virtualId === undefined ? parts.instance : parts.configuration
    return [[`${GROUP}/${resource}`, { pod, ids: new Set([id]), slots: new Map([[id, slot]]) }]]
  })
}

function byResource(all: readonly (readonly [resource: string, PodAllocation])[]): Allocations {
  const allocations = new Map<string, PodAllocation[]>()
  for (const [resource, allocation] of all) {
    const ofResource = allocations.get(resource) ?? []
    allocations.set(resource, ofResource)
    ofResource.push(allocation)
  }
  return allocations
}
