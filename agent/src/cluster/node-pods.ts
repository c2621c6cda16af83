import {
  type ApiClient,
  type NodeName,
  type ObjectKey,
  PODS,
  Reflector,
  Resource,
} from '@akrijs/kube'
import { type Clock, Listeners, type Logger } from '@akrijs/runtime'
import type { HandlerAddresses } from '../handlers/registration-request.js'
import type { NodePods } from '../kubelet/kubelet.js'
import { type PodText, podDemand } from './pod-demand.js'

interface KubernetesNodePodsOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
}

/** The Pods of one node, by a watch on the API server. */
export class KubernetesNodePods implements NodePods, HandlerAddresses {
  readonly lagMs = 1000
  synced = false
  readonly #clock: Clock
  readonly #pods: Reflector<SeenPod>
  readonly #listeners = new Listeners<[change: 'started' | 'gone']>()
  /**
   * The Pods that may have devices, and when a Pod was first seen as being deleted, by
   * `monotonicMs`: a node can have thousands of Pods that have ended.
   */
  readonly #asking = new Map<ObjectKey, { pod: SeenPod; endingSince: number | undefined }>()
  /** Pods that were deleted by force, and how long their containers may still run. */
  readonly #lingering = new Map<ObjectKey, { readonly pod: SeenPod; readonly until: number }>()
  readonly #stop = new AbortController()
  #running: Promise<void> = Promise.resolve()

  constructor({ client, clock, log, node }: KubernetesNodePodsOptions) {
    this.#clock = clock
    this.#pods = new Reflector({
      client,
      clock,
      path: new Resource(client, PODS).path(),
      query: { fieldSelector: `spec.nodeName=${node}` },
      // Any user can create Pods of 1.5 MB for a node, without the scheduler. Those that the
      // kubelet refuses stay, as Pods that have ended.
      reduce: seenPod,
      parse: seenPod,
      onError: (error, retryInMs) =>
        log.warn(
          { err: error, retryInMs: Math.round(retryInMs) },
          'watch of the Pods of this node failed',
        ),
    })
  }

  start(): void {
    this.#pods.onChange((key) => this.#follow(key), this.#stop.signal)
    void this.#pods.synced.then(() => {
      this.synced = true
    })
    this.#running = this.#pods.run(this.#stop.signal)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  users(resourceName: string): ReadonlyMap<ObjectKey, number> {
    const now = this.#clock.monotonicMs()
    for (const [key, { until }] of this.#lingering) if (until <= now) this.#lingering.delete(key)
    const users = new Map<ObjectKey, number>()
    for (const [key, { pod }] of [...this.#lingering, ...this.#asking]) {
      const most = pod.demand.get(resourceName)
      if (most !== undefined) users.set(key, most)
    }
    return users
  }

  hasEnded(pod: ObjectKey): boolean {
    return this.#pods.get(pod)?.ended === true
  }

  uidOf(pod: ObjectKey): string | undefined {
    return this.#pods.get(pod)?.metadata.uid
  }

  startedAt(pod: ObjectKey): string | undefined {
    return this.#pods.get(pod)?.startedAt
  }

  holderOf(address: string): string | undefined {
    const pods = this.#pods.list()
    return pods.find(({ addresses, ended }) => !ended && addresses.includes(address))?.holder
  }

  onChange(listener: (change: 'started' | 'gone') => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  #follow(key: ObjectKey): void {
    const before = this.#asking.get(key)
    const now = this.#pods.get(key)
    const time = this.#clock.monotonicMs()
    if (now === undefined || now.ended || now.demand.size === 0) this.#asking.delete(key)
    else {
      const since = before?.pod.metadata.uid === now.metadata.uid ? before.endingSince : undefined
      this.#asking.set(key, { pod: now, endingSince: now.ending ? (since ?? time) : undefined })
    }
    if (before === undefined) return
    const { pod, endingSince = time } = before
    // A deletion that waits for the containers comes after the report that they have ended.
    // Otherwise the object went before the containers, which the kubelet ends later.
    if (now === undefined && (!pod.ending || pod.running))
      this.#lingering.set(key, { pod, until: endingSince + pod.graceMs })
    if (now === undefined || now.ended) this.#listeners.tell('gone')
    else if (now.started && !pod.started) this.#listeners.tell('started')
  }
}

/** The time that Kubernetes gives a Pod whose `terminationGracePeriodSeconds` cannot be read. */
const DEFAULT_GRACE_SECONDS = 30

interface ContainerStatus {
  readonly state?: { readonly running?: object }
}

interface PodObject extends PodText {
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    readonly resourceVersion: string
    readonly uid: string
    readonly deletionTimestamp?: string
    readonly deletionGracePeriodSeconds?: number
  }
  readonly spec?: PodText['spec'] & {
    readonly terminationGracePeriodSeconds?: number
    readonly hostNetwork?: boolean
  }
  readonly status?: PodText['status'] & {
    readonly phase?: string
    readonly startTime?: string
    readonly podIP?: string
    readonly podIPs?: readonly { readonly ip?: string }[]
    readonly initContainerStatuses?: readonly ContainerStatus[]
    readonly containerStatuses?: readonly ContainerStatus[]
  }
}

const isRunning = ({ state }: ContainerStatus) => state?.running !== undefined

/** The part of a Pod that the agent needs. */
type SeenPod = ReturnType<typeof reducedPod>

function reducedPod({ metadata, spec = {}, status = {} }: PodObject) {
  const { namespace, name, resourceVersion, uid } = metadata
  const graceSeconds =
    metadata.deletionGracePeriodSeconds ??
    spec.terminationGracePeriodSeconds ??
    DEFAULT_GRACE_SECONDS
  const { initContainerStatuses = [], containerStatuses = [] } = status
  const ips = status.podIPs?.map(({ ip }) => ip) ?? [status.podIP]
  return {
    metadata: { namespace, name, resourceVersion, uid },
    addresses: ips.flatMap((ip) => ip ?? []),
    // Pods in the network of the node share its addresses. The next Pod can have the same name and
    // address.
    holder: spec.hostNetwork === true ? 'node' : uid,
    demand: podDemand({ spec, status }),
    startedAt: status.startTime,
    /** Whether all containers have ended for good. */
    ended: status.phase === 'Succeeded' || status.phase === 'Failed',
    /** Whether the Pod is being deleted: its object stays until its containers have ended. */
    ending: metadata.deletionTimestamp !== undefined,
    /** Whether a container runs, as the kubelet has last reported. */
    running: [...initContainerStatuses, ...containerStatuses].some(isRunning),
    /** Whether one of them is no init container: the kubelet lists their devices from then on. */
    started: containerStatuses.some(isRunning),
    /** How long its containers may take to end. */
    graceMs: graceSeconds * 1000,
  }
}

/** @param object a Pod of the server, or one that a list has reduced already */
function seenPod(object: unknown): SeenPod {
  const isReduced = (object as Partial<SeenPod>).demand instanceof Map
  return isReduced ? (object as SeenPod) : reducedPod(object as PodObject)
}
