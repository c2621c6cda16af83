import { randomBytes } from 'node:crypto'
import {
  CONFIGURATIONS,
  type Condition,
  INSTANCES,
  NODE_REPORTS,
  parseNodeReport,
} from '@akrijs/api'
import {
  type ApiClient,
  DEPLOYMENTS,
  JOBS,
  type ObjectKey,
  objectKey,
  PODS,
  Resource,
  type ResourceKind,
  SECRETS,
  SERVICES,
} from '@akrijs/kube'
import { loadAll } from 'js-yaml'
import { clientOfCluster } from '../../cluster/support/client.js'
import { applyCustomResources } from '../../cluster/support/custom-resources.js'
import { eventually as retried } from '../../support/eventually.js'
import { access, NODE_1, NODES } from './nodes.js'

const KINDS: Readonly<Record<string, ResourceKind>> = {
  Configuration: CONFIGURATIONS,
  Instance: INSTANCES,
  Pod: PODS,
  Deployment: DEPLOYMENTS,
  Job: JOBS,
  Service: SERVICES,
  Secret: SECRETS,
}

interface Named {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

export interface PodState {
  readonly metadata: {
    readonly name: string
    readonly uid: string
    readonly deletionTimestamp?: string
  }
  readonly spec: { readonly nodeName?: string }
  readonly status: { readonly phase: string; readonly reason?: string; readonly message?: string }
}

export interface InstanceState {
  readonly metadata: {
    readonly name: string
    readonly uid: string
    readonly resourceVersion: string
    readonly generation: number
  }
  readonly spec: {
    readonly configurationName: string
    readonly nodes: readonly string[]
    readonly deviceUsage: Readonly<Record<string, string>>
    readonly capacity: number
    readonly brokerProperties: Readonly<Record<string, string>>
    readonly shared: boolean
  }
}

/** A namespace of a real cluster, owned by one test. */
export class World {
  readonly namespace: string
  readonly client: ApiClient

  private constructor(client: ApiClient, namespace: string) {
    this.client = client
    this.namespace = namespace
  }

  static async open(): Promise<World> {
    const client = await clientOfCluster()
    await applyCustomResources(client)
    const namespace = `akri-${randomBytes(3).toString('hex')}`
    await client.request({
      method: 'POST',
      path: '/api/v1/namespaces',
      body: { metadata: { name: namespace } },
    })
    const world = new World(client, namespace)
    // The API server rejects Pods before the namespace has a service account, and before that has a
    // token if the cluster uses such tokens.
    await eventually(async () => {
      const body = JSON.parse(podYaml('x', {}))
      await client.request({
        method: 'POST',
        path: `/api/v1/namespaces/${namespace}/pods`,
        query: { dryRun: 'All' },
        body,
      })
    })
    return world
  }

  /** A condition of a Configuration in the report of the first node. */
  async reportedCondition(name: string, type: Condition['type']) {
    const report = await new Resource(this.client, NODE_REPORTS).get(objectKey('', NODE_1))
    const { conditions = [] } = parseNodeReport(report)?.configurations[this.key(name)] ?? {}
    return conditions.find((condition) => condition.type === type)
  }

  /** Deletes the Pods first and by force: the deletion of a namespace takes long. */
  async close(): Promise<void> {
    await this.clear()
    await this.client
      .request({ method: 'DELETE', path: `/api/v1/namespaces/${this.namespace}` })
      .catch(() => undefined)
    this.client.close()
  }

  /**
   * Removes all our objects from the namespace.
   *
   * @param nodes where agents of the caller run: what others left on other nodes can stay there
   */
  async clear(nodes: readonly string[] = NODES): Promise<void> {
    const named = [
      ...(await this.list<Named>('Configuration')),
      ...(await this.list<Named>('Instance')),
    ]
    const resources = named.map(({ metadata }) => `akri.sh/${metadata.name}`)
    // Deletes owners before the objects that they own.
    for (const kind of [
      'Configuration',
      'Deployment',
      'Job',
      'Pod',
      'Service',
      'Secret',
    ] as const) {
      for (const { metadata } of await this.list<Named>(kind)) {
        if (kind === 'Secret' && metadata.name.startsWith('default-token')) continue
        const query = kind === 'Pod' ? { gracePeriodSeconds: 0 } : {}
        await this.client
          .request({
            method: 'DELETE',
            path: `${this.api(kind).path(this.namespace)}/${metadata.name}`,
            query: { ...query, propagationPolicy: 'Background' },
          })
          .catch(() => undefined)
      }
    }
    await eventually(async () => {
      const left = [...(await this.list('Pod')), ...(await this.instances())]
      if (left.length > 0) throw new Error(`${left.length} objects are left`)
      // The status of a node lags: an old status must not pass for the next one.
      for (const node of nodes) {
        for (const resource of resources)
          if (((await this.allocatable(node, resource)) ?? 0) > 0)
            throw new Error(`${node} still has ${resource}`)
      }
    })
  }

  api(kind: string): Resource {
    const found = KINDS[kind]
    if (found === undefined) throw new TypeError(`the tests know no ${kind}`)
    return new Resource(this.client, found)
  }

  key(name: string): ObjectKey {
    return objectKey(this.namespace, name)
  }

  /** Applies objects of YAML. */
  async apply(yaml: string): Promise<void> {
    for (const object of loadAll(yaml) as Named[]) {
      const key = objectKey(object.metadata.namespace ?? this.namespace, object.metadata.name)
      await this.api(object.kind).apply(key, object, 'akri-test')
    }
  }

  async remove(kind: string, name: string): Promise<void> {
    await this.api(kind).delete(this.key(name), undefined, { propagationPolicy: 'Background' })
  }

  async get<T>(kind: string, name: string): Promise<T | undefined> {
    return (await this.api(kind).get(this.key(name))) as T | undefined
  }

  async list<T>(kind: string): Promise<T[]> {
    const { items } = (await this.client.request({
      method: 'GET',
      path: this.api(kind).path(this.namespace),
    })) as { items: T[] }
    return items
  }

  instances(): Promise<InstanceState[]> {
    return this.list<InstanceState>('Instance')
  }

  pods(): Promise<PodState[]> {
    return this.list<PodState>('Pod')
  }

  /** The phase of each Pod, by name. */
  async phases(): Promise<Record<string, string>> {
    return Object.fromEntries(
      (await this.pods()).map(({ metadata, status }) => [metadata.name, status.phase]),
    )
  }

  /** @throws if one of the Pods does not run */
  async running(...names: readonly string[]): Promise<void> {
    const pods = new Map((await this.pods()).map(({ metadata, status }) => [metadata.name, status]))
    for (const name of names) {
      const { phase = 'not there', message = '' } = pods.get(name) ?? {}
      if (phase !== 'Running') throw new Error(`Pod ${name} is ${phase} ${message}`)
    }
  }

  /** @throws if one of the nodes has not joined each Instance: a node offers a device before */
  async joined(nodes: readonly string[] = NODES): Promise<void> {
    for (const { metadata, spec } of await this.instances()) {
      const missing = nodes.filter((node) => !spec.nodes.includes(node))
      if (missing.length > 0) throw new Error(`${metadata.name} is without ${missing.join()}`)
    }
  }

  /** The Pods that a kubelet rejected, with the reason. */
  async refused(): Promise<string[]> {
    const refused = (await this.pods()).filter(
      ({ status }) => status.reason === 'UnexpectedAdmissionError',
    )
    return refused.map(
      ({ metadata, spec, status }) => `${metadata.name} on ${spec.nodeName}: ${status.message}`,
    )
  }

  /** The claims of the namespace, by slot. */
  async usage(): Promise<Record<string, string>> {
    return Object.assign({}, ...(await this.instances()).map(({ spec }) => spec.deviceUsage))
  }

  /** The nodes of all claims, sorted. */
  async holders(): Promise<string[]> {
    return Object.values(await this.usage())
      .filter((usage) => usage !== '')
      .sort()
  }

  /**
   * The allocatable quantity of a resource on a node; undefined if the node does not know the
   * resource.
   */
  async allocatable(node: string, resource: string): Promise<number | undefined> {
    const { status } = (await this.client.request({
      method: 'GET',
      path: `/api/v1/nodes/${node}`,
    })) as {
      status: { allocatable: Record<string, string> }
    }
    const found = status.allocatable[resource]
    // A quantity: Kubernetes writes 1000 as 1k.
    return found === undefined ? undefined : Number(found.replace(/k$/, '000'))
  }

  /** The allocatable quantity of a resource on each node. */
  allocatables(resource: string): Promise<(number | undefined)[]> {
    return Promise.all(NODES.map((node) => this.allocatable(node, resource)))
  }

  /** The number of our plugins that a kubelet has accepted since its start. */
  async registrations(node: string): Promise<number> {
    const request = { method: 'GET' as const, path: `/api/v1/nodes/${node}/proxy/metrics` }
    let sum = 0
    for await (const line of this.client.lines(request, AbortSignal.timeout(60_000)))
      sum += Number(
        /^kubelet_device_plugin_registration_total\{resource_name="akri\.sh\/.*\} (\S+)$/.exec(
          line,
        )?.[1] ?? 0,
      )
    return sum
  }

  async isReady(node: string): Promise<boolean> {
    const { status } = (await this.client.request({
      method: 'GET',
      path: `/api/v1/nodes/${node}`,
    })) as {
      status: { conditions: { type: string; status: string }[] }
    }
    return status.conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  }

  /** @param container can be left out for a Pod with one container */
  async logs(pod: string, container?: string): Promise<string> {
    const response: string[] = []
    const request = {
      method: 'GET' as const,
      path: `/api/v1/namespaces/${this.namespace}/pods/${pod}/log`,
      query: container === undefined ? {} : { container },
    }
    for await (const line of this.client.lines(request, AbortSignal.timeout(60_000)))
      response.push(line)
    return response.join('\n')
  }
}

/** As of all tests, for three minutes by default: a cluster is slow. */
export function eventually<T>(look: () => Promise<T> | T, limitMs = 180_000): Promise<T> {
  return retried(look, limitMs)
}

interface PodOptions {
  /** @default writes its environment, and sleeps */
  readonly script?: string
  /** @default any */
  readonly node?: string
  /** @default 1 */
  readonly graceSeconds?: number
  /** A directory of its node that the Pod sees as `/shared`. */
  readonly shared?: string
}

/** A container that asks for resources. */
export function container(
  name: string,
  limits: Readonly<Record<string, number>>,
  script = 'env; exec sleep 100000',
): object {
  return {
    name,
    image: access.shellImage,
    command: ['/bin/sh', '-c', script],
    resources: {
      limits: Object.fromEntries(
        Object.entries(limits).map(([key, count]) => [key, String(count)]),
      ),
    },
  }
}

/** A Pod that asks for resources and sleeps, or runs a script. */
export function podYaml(
  name: string,
  limits: Readonly<Record<string, number>>,
  options: PodOptions = {},
): string {
  const { script, node, graceSeconds = 1, shared } = options
  const mounts =
    shared === undefined ? {} : { volumeMounts: [{ name: 'shared', mountPath: '/shared' }] }
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      terminationGracePeriodSeconds: graceSeconds,
      restartPolicy: 'Never',
      ...onlyOn(node),
      containers: [{ ...container('c', limits, script), ...mounts }],
      ...(shared === undefined
        ? {}
        : { volumes: [{ name: 'shared', hostPath: { path: shared } }] }),
    },
  })
}

/** A Deployment of such Pods. */
export function deploymentYaml(
  name: string,
  limits: Readonly<Record<string, number>>,
  options: { replicas: number; strategy: object; version?: string; node?: string },
): string {
  const { replicas, strategy, version = 'v1', node } = options
  return JSON.stringify({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name },
    spec: {
      replicas,
      strategy,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name, version } },
        spec: {
          terminationGracePeriodSeconds: 1,
          ...onlyOn(node),
          containers: [container('c', limits)],
        },
      },
    },
  })
}

/** The part of a Pod's spec that binds it to a node. */
function onlyOn(node: string | undefined): object {
  return node === undefined ? {} : { nodeSelector: { 'kubernetes.io/hostname': node } }
}

/** A Configuration of a handler. */
export function configurationYaml(
  name: string,
  discoveryHandler: { readonly name: string; readonly discoveryDetails: string },
  more: object = {},
): string {
  const spec = { discoveryHandler, ...more }
  return JSON.stringify({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name },
    spec,
  })
}

/** A Configuration of debugEcho. */
export function echoYaml(
  name: string,
  descriptions: readonly string[],
  capacity: number,
  more: object = {},
): string {
  const discoveryDetails = JSON.stringify({ descriptions })
  return configurationYaml(name, { name: 'debugEcho', discoveryDetails }, { capacity, ...more })
}
