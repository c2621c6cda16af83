import { type ObjectKey, objectKey } from '@akrijs/kube'
import { type ListPodResourcesResponse, PodResourcesListerClient } from '@akrijs/proto/pod-resources'
import { messageOf } from '@akrijs/sdk'
import { KubeletUnavailableError } from '../errors.js'
import type { Allocations } from '../ports/kubelet.js'
import { type AllocationSource, askOnce } from './allocation-source.js'

/** The largest list of Pods that is read, in bytes: the limit of the kubelet's own clients. */
const MAX_LIST_BYTES = 16 * 1024 * 1024

/** The kubelet's own account of what its containers have. */
export class PodResources implements AllocationSource {
  readonly #socket: string

  constructor(socket: string) {
    this.#socket = socket
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
      return await askOnce<PodResourcesListerClient, ListPodResourcesResponse>(
        PodResourcesListerClient,
        this.#socket,
        signal,
        (client, metadata, options, done) => client.list({}, metadata, options, done),
        MAX_LIST_BYTES,
      )
    } catch (error) {
      throw new KubeletUnavailableError(`the kubelet did not list its Pods: ${messageOf(error)}`, { cause: error })
    }
  }
}
