import { GROUP, type SlotName, slotNameParts } from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import {
  type Container,
  type ListContainersResponse,
  RuntimeServiceClient,
} from '@akrijs/proto/runtime'
import { SLOT_ANNOTATION } from '../plugins/allocation.js'
import { type AllocationSource, MAX_LIST_BYTES } from './allocation-source.js'
import type { Allocations, PodAllocation } from './kubelet.js'
import { LocalService } from './local-service.js'

/** `CONTAINER_EXITED` of the container runtime interface. */
const EXITED = 2

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
    const allocated = new Map<string, PodAllocation[]>()
    for (const container of containers) {
      if (container.state === EXITED) continue
      for (const { resourceName, id, slot } of slotsIn(container)) {
        const ofResource = allocated.get(resourceName) ?? []
        allocated.set(resourceName, [
          ...ofResource,
          { pod: podOf(container), ids: new Set([id]), slots: new Map([[id, slot]]) },
        ])
      }
    }
    return allocated
  }
}

function podOf({ labels }: Container): ObjectKey {
  return objectKey(
    labels['io.kubernetes.pod.namespace'] ?? '',
    labels['io.kubernetes.pod.name'] ?? '',
  )
}

/**
 * `akri.agent.slot-<slot>: <slot>`, or `C:<virtual id>:<slot>` for the resource of the
 * Configuration.
 */
function slotsIn({
  annotations,
}: Container): { resourceName: string; id: string; slot: SlotName }[] {
  return Object.entries(annotations).flatMap(([name, value]) => {
    if (!name.startsWith(SLOT_ANNOTATION)) return []
    const slot = name.slice(SLOT_ANNOTATION.length) as SlotName
    const parts = slotNameParts(slot)
    if (parts === undefined) return []
    const { instance, configuration } = parts
    const [, virtualId] = /^C:([^:]+):/.exec(value) ?? []
    return virtualId === undefined
      ? [{ resourceName: `${GROUP}/${instance}`, id: slot, slot }]
      : [{ resourceName: `${GROUP}/${configuration}`, id: virtualId, slot }]
  })
}
