import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { KubeletUnavailableError, NO_CHANNELZ, type NodePods } from '@akrijs/agent'
import { objectKey } from '@akrijs/kube'
import { type Empty, type RegisterRequest, RegistrationService } from '@akrijs/proto/device-plugin'
import { PodResourcesListerService } from '@akrijs/proto/pod-resources'
import { Listeners, makeRoomForSocket, messageOf } from '@akrijs/runtime'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { AdmissionError } from '../errors.js'
import { PluginConnection } from './plugin-connection.js'
import {
  type ContainerAllocation,
  type ContainerOptions,
  containerOptions,
  type SimulatedPod,
} from './pod.js'

export interface SimulatedKubeletOptions {
  /** Its sockets go to `device-plugins` and `pod-resources` below. */
  readonly directory: string
}

export interface ResourceState {
  readonly capacity: number
  readonly allocatable: number
  readonly allocated: number
}

interface AdmittedPod {
  readonly pod: SimulatedPod
  readonly allocations: readonly ContainerAllocation[]
}

/**
 * The kubelet as device plugins meet it: it takes registrations, follows ListAndWatch, and admits Pods by picking free
 * healthy ids and calling Allocate, one resource of one container after the other. It lists what containers hold by the
 * podresources API. All over real sockets. It starts no containers.
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

  /** What a node's status says of a resource. */
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

  /** Ids and health, as the plugin of a resource said last. */
  devices(resource: string): ReadonlyMap<string, boolean> {
    return this.#plugins.get(resource)?.devices ?? new Map()
  }

  /** The Pods that are admitted and not removed. */
  get pods(): readonly SimulatedPod[] {
    return [...this.#pods.values()].map(({ pod }) => pod)
  }

  onChange(listener: () => void, signal: AbortSignal): void {
    this.#changeListeners.add(listener, signal)
  }

  /** What an API server would tell of the Pods of this node. */
  readonly nodePods: NodePods = {
    synced: true,
    lagMs: 0,
    users: (resourceName) =>
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
    // The kubelet forgets a Pod with its removal.
    hasEnded: () => false,
    onGone: (listener, signal) => this.#podGoneListeners.add(listener, signal),
  }

  /**
   * Admits a Pod: all of its containers get what they ask for, or it is refused. What plugins have allocated for a Pod that
   * is then refused they have to find out for themselves, as with a real kubelet.
   * @returns what each container is to run with
   * @throws AdmissionError
   */
  admit(pod: SimulatedPod): Promise<ReadonlyMap<string, ContainerOptions>> {
    this.#beingAdmitted.add(pod)
    const admission = this.#admitting
      .then(() => this.#admit(pod))
      .finally(() => {
        this.#beingAdmitted.delete(pod)
        // Refused: what plugins have allocated for it nobody will have.
        if (!this.#pods.has(pod.uid)) this.#podGoneListeners.tell()
      })
    this.#admitting = admission.catch(() => undefined)
    return admission
  }

  /** The Pod has ended and is removed from the node. */
  remove(uid: string): void {
    if (!this.#pods.delete(uid)) return
    this.#podGoneListeners.tell()
    this.#changed()
  }

  /** As a kubelet that restarts: it empties the directory of plugins and forgets them; Pods it knows from its checkpoint. */
  async restart(): Promise<void> {
    await this.#stopServing()
    for (const name of await readdir(this.pluginDirectory))
      await rm(path.join(this.pluginDirectory, name), { force: true })
    await this.#serve()
  }

  /** Ends the stream of a plugin, and gives up on it until it registers again: as when the list cannot be read. */
  giveUp(resource: string): void {
    this.#plugins.get(resource)?.close()
    this.#plugins.delete(resource)
    this.#changed()
  }

  async close(): Promise<void> {
    await this.#stopServing()
    await rm(path.join(this.pluginDirectory, 'kubelet.sock'), { force: true })
    await rm(this.podResourcesSocket, { force: true })
  }

  async #serve(): Promise<void> {
    const registration = new Server(NO_CHANNELZ)
    registration.addService(RegistrationService, {
      register: (call: ServerUnaryCall<RegisterRequest, Empty>, answer: sendUnaryData<Empty>) => {
        const wrong = this.#wrongWith(call.request)
        if (wrong !== undefined) return answer({ code: status.INVALID_ARGUMENT, details: wrong })
        this.#connect(call.request)
        answer(null, {})
      },
    })
    const lister = new Server(NO_CHANNELZ)
    lister.addService(PodResourcesListerService, {
      list: (_call: unknown, answer: sendUnaryData<object>) =>
        answer(null, { podResources: this.#podResources() }),
      getAllocatableResources: (_call: unknown, answer: sendUnaryData<object>) =>
        answer(null, {
          devices: [...this.#plugins.values()].map((plugin) => ({
            resourceName: plugin.resourceName,
            deviceIds: plugin.healthy,
          })),
          cpuIds: [],
          memory: [],
        }),
      get: (
        call: ServerUnaryCall<{ podName: string; podNamespace: string }, object>,
        answer: sendUnaryData<object>,
      ) => {
        const { podName, podNamespace } = call.request
        const podResources = this.#podResources().find(
          ({ name, namespace }) => name === podName && namespace === podNamespace,
        )
        if (podResources === undefined)
          answer({ code: status.NOT_FOUND, details: `pod ${podNamespace}/${podName} not found` })
        else answer(null, { podResources })
      },
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

  /** What the kubelet checks of a registration. */
  #wrongWith({ version, resourceName, endpoint }: RegisterRequest): string | undefined {
    if (version !== 'v1beta1') return `version ${version} is not supported; v1beta1 is`
    if (
      !/^[a-z0-9.-]+\/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(resourceName) ||
      resourceName.includes('kubernetes.io/')
    ) {
      return `${JSON.stringify(resourceName)} is not the name of an extended resource`
    }
    if (
      path.basename(endpoint) !== endpoint ||
      endpoint === '' ||
      endpoint === '..' ||
      endpoint === '.'
    )
      return `endpoint ${JSON.stringify(endpoint)} is not a file name`
    return undefined
  }

  #connect({ resourceName, endpoint, options }: RegisterRequest): void {
    this.#plugins.get(resourceName)?.close()
    const socket = path.join(this.pluginDirectory, endpoint)
    const preferred = options?.getPreferredAllocationAvailable ?? false
    this.#plugins.set(
      resourceName,
      new PluginConnection(resourceName, socket, preferred, () => this.#changed()),
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
    this.#changed()
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
        `requested number of devices unavailable for ${resource}. Requested: ${count}, Available: ${available.length}`,
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

  #podResources() {
    return [...this.#pods.values()].map(({ pod, allocations }) => ({
      name: pod.name,
      namespace: pod.namespace,
      containers: pod.containers.map(({ name }) => ({
        name,
        devices: allocations
          .filter(({ container }) => container === name)
          .map(({ resource, ids }) => ({
            resourceName: resource,
            deviceIds: [...ids],
            topology: undefined,
          })),
        cpuIds: [],
        memory: [],
        dynamicResources: [],
      })),
    }))
  }

  #changed(): void {
    this.#changeListeners.tell()
  }
}

async function listen(server: Server, socket: string): Promise<void> {
  await makeRoomForSocket(socket)
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error)
        reject(
          new KubeletUnavailableError(
            `the simulated kubelet cannot listen on ${socket}: ${error.message}`,
            { cause: error },
          ),
        )
      else resolve()
    })
  })
}
