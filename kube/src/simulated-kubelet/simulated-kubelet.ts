import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import type { RegisterRequest } from '@akrijs/proto/device-plugin'
import { Listeners, messageOf } from '@akrijs/runtime'
import type { Server } from '@grpc/grpc-js'
import { AdmissionError } from '../errors.js'
import { type ObjectKey, objectKey } from '../objects.js'
import { listen, podResourcesServer, registrationServer } from './kubelet-services.js'
import { PluginConnection } from './plugin-connection.js'
import {
  type AdmittedPod,
  type ContainerAllocation,
  type ContainerOptions,
  containerOptions,
  type SimulatedPod,
} from './simulated-pod.js'

export type { ContainerOptions } from './simulated-pod.js'

interface SimulatedKubeletOptions {
  /** The parent of `device-plugins` and `pod-resources`, which hold the sockets. */
  readonly directory: string
}

interface ResourceState {
  readonly capacity: number
  readonly allocatable: number
  readonly allocated: number
}

/**
 * The part of a kubelet that device plugins see, over real sockets. It registers plugins, follows
 * ListAndWatch, and serves podresources. It admits a Pod by Allocate with free healthy ids, for one
 * resource of one container after the other. It starts no containers.
 */
export class SimulatedKubelet {
  readonly directory: string
  readonly #plugins = new Map<string, PluginConnection>()
  readonly #pods = new Map<string, AdmittedPod>()
  readonly #changeListeners = new Listeners()
  readonly #podGoneListeners = new Listeners()
  readonly #beingAdmitted = new Set<SimulatedPod>()
  #servers: readonly Server[] = []
  /** The kubelet admits one Pod at a time. */
  #admitting: Promise<unknown> = Promise.resolve()

  private constructor(directory: string) {
    this.directory = directory
  }

  static async start({ directory }: SimulatedKubeletOptions): Promise<SimulatedKubelet> {
    const kubelet = new SimulatedKubelet(directory)
    await kubelet.#serve()
    return kubelet
  }

  get pluginDirectory(): string {
    return path.join(this.directory, 'device-plugins')
  }

  get podResourcesSocket(): string {
    return path.join(this.directory, 'pod-resources', 'kubelet.sock')
  }

  /** A resource in the status of the node. */
  resource(name: string): ResourceState {
    const plugin = this.#plugins.get(name)
    return {
      capacity: plugin?.devices.size ?? 0,
      allocatable: plugin?.healthy.length ?? 0,
      allocated: this.#allocatedIds(name).size,
    }
  }

  get resources(): string[] {
    return [...this.#plugins.keys()].sort()
  }

  /** The device ids and their health from the last list of the plugin. */
  devices(resource: string): ReadonlyMap<string, boolean> {
    return this.#plugins.get(resource)?.devices ?? new Map()
  }

  /** The admitted Pods. */
  get pods(): readonly SimulatedPod[] {
    return [...this.#pods.values()].map(({ pod }) => pod)
  }

  onChange(listener: () => void, signal: AbortSignal): void {
    this.#changeListeners.add(listener, signal)
  }

  /** The Pods of this node, as a watch of an API server would report them. */
  readonly nodePods = {
    synced: true,
    lagMs: 0,
    users: (resourceName: string) =>
      new Map(
        [...this.#beingAdmitted, ...this.pods]
          .filter(({ containers }) =>
            containers.some(({ resources }) => Object.hasOwn(resources, resourceName)),
          )
          .map(({ namespace, name, containers }) => [
            objectKey(namespace, name),
            containers.reduce((sum, { resources }) => sum + (resources[resourceName] ?? 0), 0),
          ]),
      ),
    // The kubelet forgets a Pod when it is removed.
    hasEnded: () => false,
    uidOf: (key: ObjectKey) =>
      this.pods.find(({ namespace, name }) => objectKey(namespace, name) === key)?.uid,
    startedAt: () => undefined,
    onChange: (listener: (change: 'gone') => void, signal: AbortSignal) =>
      this.#podGoneListeners.add(() => listener('gone'), signal),
  }

  /**
   * Admits a Pod if all of its containers get their resources. As a real kubelet, it does not tell
   * plugins that a Pod was refused after an allocation.
   * @returns the options of each container
   * @throws AdmissionError
   */
  admit(pod: SimulatedPod): Promise<ReadonlyMap<string, ContainerOptions>> {
    this.#beingAdmitted.add(pod)
    const admission = this.#admitting
      .then(() => this.#admit(pod))
      .finally(() => {
        this.#beingAdmitted.delete(pod)
        // The Pod was refused: no container uses its allocations.
        if (!this.#pods.has(pod.uid)) this.#podGoneListeners.tell()
      })
    this.#admitting = admission.catch(() => undefined)
    return admission
  }

  /** Removes a Pod that has ended. */
  remove(uid: string): void {
    if (!this.#pods.delete(uid)) return
    this.#podGoneListeners.tell()
    this.#changeListeners.tell()
  }

  /**
   * Restarts as a kubelet: it empties the directory of plugins, and keeps Pods by its checkpoint.
   */
  async restart(): Promise<void> {
    await this.#stopServing()
    for (const name of await readdir(this.pluginDirectory))
      await rm(path.join(this.pluginDirectory, name), { force: true })
    await this.#serve()
  }

  /** Drops a plugin until it registers again, as after an invalid list. */
  giveUp(resource: string): void {
    this.#plugins.get(resource)?.close()
    this.#plugins.delete(resource)
    this.#changeListeners.tell()
  }

  async close(): Promise<void> {
    await this.#stopServing()
    await rm(this.podResourcesSocket, { force: true })
  }

  async #serve(): Promise<void> {
    const registration = registrationServer((request) => this.#connect(request))
    const lister = podResourcesServer({
      admittedPods: () => [...this.#pods.values()],
      allocatable: () =>
        [...this.#plugins.values()].map(({ resourceName, healthy }) => ({
          resourceName,
          deviceIds: healthy,
        })),
    })
    await mkdir(this.pluginDirectory, { recursive: true })
    await mkdir(path.dirname(this.podResourcesSocket), { recursive: true })
    await listen(registration, path.join(this.pluginDirectory, 'kubelet.sock'))
    await listen(lister, this.podResourcesSocket)
    this.#servers = [registration, lister]
  }

  async #stopServing(): Promise<void> {
    for (const plugin of this.#plugins.values()) plugin.close()
    this.#plugins.clear()
    for (const server of this.#servers) server.forceShutdown()
    this.#servers = []
    await rm(path.join(this.pluginDirectory, 'kubelet.sock'), { force: true })
  }

  #connect({ resourceName, endpoint, options }: RegisterRequest): void {
    this.#plugins.get(resourceName)?.close()
    const socket = path.join(this.pluginDirectory, endpoint)
    const preferred = options?.getPreferredAllocationAvailable ?? false
    this.#plugins.set(
      resourceName,
      new PluginConnection(resourceName, socket, preferred, () => this.#changeListeners.tell()),
    )
  }

  async #admit(pod: SimulatedPod): Promise<ReadonlyMap<string, ContainerOptions>> {
    if (this.#pods.has(pod.uid)) throw new AdmissionError(`Pod ${pod.name} is admitted already`)
    const allocations: ContainerAllocation[] = []
    for (const { name, resources } of pod.containers) {
      for (const [resource, count] of Object.entries(resources)) {
        allocations.push(await this.#allocate(name, resource, count, allocations))
      }
    }
    this.#pods.set(pod.uid, { pod, allocations })
    this.#changeListeners.tell()
    return new Map(
      pod.containers.map(({ name }) => [
        name,
        containerOptions(allocations.filter(({ container }) => container === name)),
      ]),
    )
  }

  async #allocate(
    container: string,
    resource: string,
    count: number,
    ofThisPod: readonly ContainerAllocation[],
  ): Promise<ContainerAllocation> {
    const plugin = this.#plugins.get(resource)
    const taken = this.#allocatedIds(resource)
    for (const allocation of ofThisPod)
      if (allocation.resource === resource) for (const id of allocation.ids) taken.add(id)
    const available = (plugin?.healthy ?? []).filter((id) => !taken.has(id))
    if (plugin === undefined || available.length < count) {
      throw new AdmissionError(
        `requested number of devices unavailable for ${resource}. Requested: ${count}, ` +
          `Available: ${available.length}`,
      )
    }
    try {
      const ids = await plugin.choose(available, count)
      const { containerResponses } = await plugin.allocate(ids)
      const response = containerResponses[0]
      if (response === undefined)
        throw new AdmissionError(`no containers in allocation response of ${resource}`)
      return { container, resource, ids, response }
    } catch (error) {
      if (error instanceof AdmissionError) throw error
      throw new AdmissionError(`Allocate failed due to ${messageOf(error)}`)
    }
  }

  #allocatedIds(resource: string): Set<string> {
    const all = [...this.#pods.values()].flatMap(({ allocations }) => allocations)
    return new Set(
      all.filter((allocation) => allocation.resource === resource).flatMap(({ ids }) => ids),
    )
  }
}
