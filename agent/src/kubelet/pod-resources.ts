import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import {
  type ListPodResourcesResponse,
  PodResourcesListerClient,
} from '@akrijs/proto/pod-resources'
import { type AllocationSource, MAX_LIST_BYTES } from './allocation-source.js'
import type { Allocations } from './kubelet.js'
import { LocalService } from './local-service.js'

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
    const allocated = new Map<string, { pod: ObjectKey; ids: Set<string> }[]>()
    for (const { name, namespace, containers } of podResources) {
      const pod = objectKey(namespace, name)
      for (const { resourceName, deviceIds } of containers.flatMap(({ devices }) => devices)) {
        const ofResource = allocated.get(resourceName) ?? []
        allocated.set(resourceName, [...ofResource, { pod, ids: new Set(deviceIds) }])
      }
    }
    return allocated
  }
}
