import { LEASES, NODES, objectKey, PODS, Resource } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import type { World } from '../../test/e2e/support/world.js'
import { agentPod } from './processes/agent-pod.js'

/** Kubernetes waits ten seconds in the test clusters before it takes a node for lost. */
const HEARTBEAT_MS = 4000
const LEASE_NAMESPACE = 'kube-node-lease'

/** Nodes without a machine: they are Ready, and have the Pod of an agent. */
export class BenchNodes {
  readonly #world: World
  readonly #names = new Set<string>()
  readonly #stop = new AbortController()
  readonly #beating: Promise<void>

  constructor(world: World) {
    this.#world = world
    this.#beating = this.#beat()
  }

  async add(names: readonly string[]): Promise<void> {
    await Promise.all(names.map((name) => this.#add(name)))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#beating
    const nodes = new Resource(this.#world.client, NODES)
    const leases = new Resource(this.#world.client, LEASES)
    await Promise.all(
      [...this.#names].flatMap((name) => [
        nodes.delete(objectKey('', name)),
        leases.delete(objectKey(LEASE_NAMESPACE, name)),
      ]),
    )
  }

  async #add(name: string): Promise<void> {
    const { client, namespace } = this.#world
    this.#names.add(name)
    const now = new Date().toISOString()
    const nodes = new Resource(client, NODES)
    const taint = { key: 'akri.sh/bench', effect: 'NoSchedule' }
    await nodes.create('', {
      metadata: { name, labels: { 'kubernetes.io/hostname': name } },
      spec: { taints: [taint] },
    })
    const ready = {
      type: 'Ready',
      status: 'True',
      reason: 'KubeletReady',
      lastHeartbeatTime: now,
      lastTransitionTime: now,
    }
    const status = { conditions: [ready], capacity: { pods: '100' }, allocatable: { pods: '100' } }
    await nodes.patch(objectKey('', name), 'merge', { status }, { subresource: 'status' })
    await new Resource(client, LEASES).create(LEASE_NAMESPACE, {
      metadata: { name },
      spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime: microTime() },
    })
    await this.#addPod(name, namespace)
  }

  async #addPod(node: string, namespace: string): Promise<void> {
    const pods = new Resource(this.#world.client, PODS)
    const name = agentPod(node)
    await pods.create(namespace, {
      metadata: {
        name,
        labels: {
          'app.kubernetes.io/name': 'akri-agent',
          'app.kubernetes.io/part-of': 'akri',
          'app.kubernetes.io/component': 'agent',
        },
      },
      spec: {
        nodeName: node,
        containers: [{ name: 'akri-agent', image: 'bench' }],
        tolerations: [{ operator: 'Exists' }],
      },
    })
    const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] }
    const key = objectKey(namespace, name)
    await pods.patch(key, 'merge', { status }, { subresource: 'status' })
  }

  async #beat(): Promise<void> {
    const { signal } = this.#stop
    const leases = new Resource(this.#world.client, LEASES)
    while (!signal.aborted) {
      const spec = { renewTime: microTime() }
      await Promise.all(
        [...this.#names].map((name) =>
          leases.patch(objectKey(LEASE_NAMESPACE, name), 'merge', { spec }).catch(() => undefined),
        ),
      )
      await systemClock.sleep(HEARTBEAT_MS, signal).catch(() => undefined)
    }
  }
}

function microTime(): string {
  return new Date().toISOString().replace('Z', '000Z')
}
