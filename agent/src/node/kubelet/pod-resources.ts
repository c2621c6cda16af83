import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import {
  type ListPodResourcesResponse,
  PodResourcesListerClient,
} from '@akrijs/proto/pod-resources'
import { messageOf } from '@akrijs/runtime'
import { KubeletUnavailableError } from '../../errors.js'
import type { Allocations } from '../../ports/kubelet.js'
import type { AllocationSource } from './allocation-source.js'
import { LocalService } from './local-service.js'

/** The size limit of the list, in bytes, as in the kubelet's own clients. */
const MAX_LIST_BYTES = 16 * 1024 * 1024

/** The allocations, from the kubelet's podresources service. */
export class PodResources implements AllocationSource {
  readonly #service: LocalService<PodResourcesListerClient>

  constructor(socket: string) {
    this.#service = new LocalService(PodResourcesListerClient, socket, MAX_LIST_BYTES)
  }

  async list(signal: AbortSignal): Promise<Allocations> {
    const allocated = new Map<string, { pod: ObjectKey; ids: Set<string> }[]>()
    for (const { name, namespace, containers } of (await this.#ask(signal)).podResources) {
      const pod = objectKey(namespace, name)
      for (const { resourceName, deviceIds } of containers.flatMap(({ devices }) => devices)) {
        const ofResource = allocated.get(resourceName) ?? []
        allocated.set(resourceName, [...ofResource, { pod, ids: new Set(deviceIds) }])
      }
    }
    return allocated
  }

  async #ask(signal: AbortSignal): Promise<ListPodResourcesResponse> {
    try {
      return await this.#service.ask<ListPodResourcesResponse>(
        signal,
        (client, metadata, options, done) => client.list({}, metadata, options, done),
      )
    } catch (error) {
      throw new KubeletUnavailableError(`the kubelet did not list its Pods: ${messageOf(error)}`, {
        cause: error,
      })
    }
  }
}
