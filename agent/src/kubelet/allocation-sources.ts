import { GROUP, type SlotName, slotNameParts } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { PodResourcesListerService } from '@akrijs/proto/pod-resources'
import { type Container, RuntimeServiceService } from '@akrijs/proto/runtime'
import { SLOT_ANNOTATION } from '../plugins/allocation.js'
import type { Allocations, Kubelet, PodAllocation } from './kubelet.js'
import { LocalService } from './local-service.js'

/** `CONTAINER_EXITED` of the container runtime interface. */
const EXITED = 2

/** Lists which containers of this node have which device ids, as the kubelet's `listAllocated`. */
export type AllocationSource = Kubelet['listAllocated']

/** The allocations, from the kubelet's podresources service. */
export function podResources(socket: string): AllocationSource {
  const service = new LocalService(socket)
  const { list } = PodResourcesListerService
  return async (signal) => {
    const answer = await service.ask('the kubelet did not list its Pods', list, {}, signal)
    const all: [resource: string, PodAllocation][] = []
    for (const { name, namespace, containers } of answer.podResources)
      for (const { resourceName, deviceIds } of containers.flatMap(({ devices }) => devices))
        all.push([resourceName, { pod: objectKey(namespace, name), ids: new Set(deviceIds) }])
    return byResource(all)
  }
}

/**
 * The allocations, from the annotations of the containers: for kubelets that do not serve
 * podresources. A container that waits for its restart has exited, while its Pod is still there.
 */
export function containerRuntime(socket: string): AllocationSource {
  const service = new LocalService(socket)
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
