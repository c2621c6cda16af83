import { expect } from 'vitest'
import { access } from './nodes.js'
import type { PodState, World } from './world.js'

// Objects of the controller: how tests create and read them.

const ASKS = { '{{PLACEHOLDER}}': '1' }

/** The parts of specs that tests read: Pods, Jobs, Deployments and Services. */
interface Spec {
  readonly nodeName?: string
  readonly affinity?: { readonly nodeAffinity?: object }
  readonly containers: readonly [
    {
      readonly command: readonly [string, string, string]
      readonly resources: object
    },
  ]
  readonly template: { readonly metadata: { readonly annotations?: object }; readonly spec: Spec }
  readonly selector: Readonly<Record<string, string>>
  readonly ports: readonly [{ readonly port: number; readonly nodePort?: number }]
  readonly clusterIP: string
}

/** An object of the controller, or a foreign object of the same form. */
export interface Made {
  readonly metadata: {
    readonly name: string
    readonly uid: string
    readonly resourceVersion: string
    readonly generation: number
    readonly deletionTimestamp?: string
    readonly labels: Readonly<Record<string, string>>
    readonly annotations: Readonly<Record<string, string>>
    readonly ownerReferences?: readonly { readonly kind: string; readonly name: string }[]
  }
  readonly spec: Spec
  readonly status: PodState['status'] & {
    readonly conditions?: { readonly type: string; readonly status: string }[]
  }
}

/**
 * A PodSpec whose container writes its environment and sleeps, or runs a script. It has no grace
 * period.
 */
export function podSpec(
  script = 'env; exec sleep 100000',
  more: object = {},
  resources: object = ASKS,
) {
  const container = {
    name: 'broker',
    image: access.shellImage,
    command: ['/bin/sh', '-c', script],
    resources: { limits: resources, requests: resources },
  }
  return { terminationGracePeriodSeconds: 0, containers: [container], ...more }
}

export const service = (port: number) => ({
  type: 'ClusterIP',
  ports: [{ name: 'p', port, targetPort: port, protocol: 'TCP' }],
})

/** The objects of the namespace, by name. */
export async function podsIn(world: World): Promise<Made[]> {
  return (await world.list<Made>('Pod')).sort((a, b) =>
    a.metadata.name < b.metadata.name ? -1 : 1,
  )
}

/** The objects without a deletionTimestamp. */
export async function alivePodsIn(world: World): Promise<Made[]> {
  return (await podsIn(world)).filter(({ metadata }) => metadata.deletionTimestamp === undefined)
}

/** @throws if the number of running Pods differs */
export async function runningPodsIn(world: World, count: number): Promise<Made[]> {
  const found = await alivePodsIn(world)
  expect(found.map(({ status }) => status.phase)).toEqual(
    Array.from({ length: count }, () => 'Running'),
  )
  return found
}

export async function namesIn(world: World, kind: string): Promise<string[]> {
  return (await world.list<Made>(kind)).map(({ metadata }) => metadata.name).sort()
}

/** A text that changes with every recreated Instance and every change of nodes. */
export async function instanceIdsIn(world: World): Promise<string[][]> {
  return (await world.instances())
    .map(({ metadata, spec }) => [metadata.uid, spec.nodes.toSorted().join()])
    .sort()
}

export function ready(found: readonly Made[]): Made[] {
  return found.filter(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined &&
      status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
  )
}

/** The endpoints of a Service. */
export async function addresses(world: World, name: string): Promise<string[]> {
  const { subsets = [] } = (await world.client.request({
    method: 'GET',
    path: `/api/v1/namespaces/${world.namespace}/endpoints/${name}`,
  })) as { subsets?: { addresses?: { ip: string }[] }[] }
  return subsets.flatMap(({ addresses: found = [] }) => found.map(({ ip }) => ip))
}
