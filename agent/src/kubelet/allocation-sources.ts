import { GROUP, type SlotName, slotNameParts } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { PodResourcesListerService } from '@akrijs/proto/pod-resources'
import { type Container, RuntimeServiceService } from '@akrijs/proto/runtime'
import { SLOT_ANNOTATION } from '../plugins/allocation.js'
import type { Allocations, PodAllocation } from './kubelet.js'
import { LocalService } from './local-service.js'

/** The size limit of a list, in bytes, as in the kubelet's own clients. */
const MAX_LIST_BYTES = 16 * 1024 * 1024
/** `CONTAINER_EXITED` of the container runtime interface. */
const EXITED = 2

/**
 * Lists which containers of this node have which device ids.
 * @throws KubeletUnavailableError (transient)
 */
export type AllocationSource = (signal: AbortSignal) => Promise<Allocations>

/** The allocations, from the kubelet's podresources service. */
export function podResources(socket: string): AllocationSource {
  const service = new LocalService(socket, MAX_LIST_BYTES)
  const { list } = PodResourcesListerService
  return async (signal) => {
    const answer = await service.ask('the kubelet did not list its Pods', list, {}, signal)
    return byResource(
      answer.podResources.flatMap(({ name, namespace, containers }) => {
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
export function containerRuntime(socket: string): AllocationSource {
  const service = new LocalService(socket, MAX_LIST_BYTES)
  const { listContainers } = RuntimeServiceService
  const failure = 'the container runtime did not list its containers'
  return async (signal) => {
    const { containers } = await service.ask(failure, listContainers, {}, signal)
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
