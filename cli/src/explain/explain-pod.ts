import { type Configuration, GROUP, type Instance } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube'
import { nearest } from '@akrijs/runtime'
import type { SlotUse } from '../objects/object-source.js'
import { SLOT_HEADER, slotRows } from '../objects/slots.js'
import { formatTable } from '../view/table.js'
import type { ClusterFacts, PodFacts } from './cluster-facts.js'

export interface PodSurroundings extends ClusterFacts {
  readonly configurations: readonly Configuration[]
  readonly instances: readonly Instance[]
  readonly uses: ReadonlyMap<ObjectKey, readonly SlotUse[]>
}

/** Why a Pod waits, was refused, or what it has; the last line is the next step. */
export function explainPod(pod: PodFacts, surroundings: PodSurroundings): string[] {
  const { key, phase, node, why } = pod
  const where = node === '' ? 'on no node yet' : `on ${node}`
  return [
    `Pod ${key}: ${phase} ${where}${why === '' ? '' : `: ${why}`}`,
    ...[...pod.asks].flatMap(([resource, number]) => [
      '',
      ...asked(resource, number, surroundings),
    ]),
    '',
    `Next step: ${nextStep(pod, surroundings)}`,
  ]
}

function asked(
  resource: string,
  number: number,
  { nodes, pods, instances, uses }: PodSurroundings,
): string[] {
  const rows = nodes
    .filter(({ offered }) => offered.has(resource))
    .map(({ name, offered }) => [
      name,
      String(offered.get(resource)),
      String(askedOn(name, resource, pods)),
    ])
  const name = nameOf(resource)
  const held = slotRows(
    instances.filter(
      ({ metadata, spec }) => metadata.name === name || spec.configurationName === name,
    ),
    uses,
  )
  return [
    `It asks for ${number} of ${resource}:`,
    ...(rows.length === 0
      ? ['no kubelet offers it']
      : formatTable(['NODE', 'OFFERED', 'ASKED FOR THERE'], rows).split('\n')),
    ...(held.length === 0 ? [] : ['', ...formatTable(SLOT_HEADER, held).split('\n')]),
  ]
}

/** How many of a resource the Pods of a node ask for. */
function askedOn(name: string, resource: string, pods: readonly PodFacts[]): number {
  return pods
    .filter(({ node, phase }) => node === name && phase !== 'Failed')
    .reduce((sum, { asks }) => sum + (asks.get(resource) ?? 0), 0)
}

/** The name after `akri.sh/`. */
function nameOf(resource: string): string {
  return resource.slice(GROUP.length + 1)
}

function nextStep(pod: PodFacts, surroundings: PodSurroundings): string {
  const { configurations, instances } = surroundings
  if (pod.asks.size === 0) {
    const [some] = configurations.map(({ metadata }) => metadata.name)
    return `it asks for no device: give a container limits, { ${GROUP}/${some ?? 'NAME'}: "1" }`
  }
  if (pod.phase === 'Running') return 'none: it runs'
  if (pod.phase === 'Failed') return 'delete it; if nothing owns it, create it again'
  const names = [...configurations, ...instances].map(({ metadata }) => String(metadata.name))
  const unknown = [...pod.asks.keys()].map(nameOf).find((name) => !names.includes(name))
  if (unknown !== undefined) {
    const meant = nearest(unknown, names)
    const hint = meant === undefined ? '' : `; is ${meant} meant?`
    return `no Configuration and no Instance has the name ${unknown}${hint}`
  }
  const lacking = [...pod.asks].flatMap((ask) => lackOf(...ask, surroundings) ?? [])
  return lacking[0] ?? 'devices are free: the reason is in the first line'
}

/** What to do if no node has so many of a resource. */
function lackOf(
  resource: string,
  number: number,
  { nodes, pods, instances }: PodSurroundings,
): string | undefined {
  const name = nameOf(resource)
  const instance = instances.find(({ metadata }) => metadata.name === name)
  const configuration = instance?.spec.configurationName ?? name
  const offering = nodes.filter(({ offered }) => (offered.get(resource) ?? 0) > 0)
  if (offering.length === 0) return `akri explain configuration ${configuration}: no node offers it`
  const hasRoom = offering.some(
    ({ name: node, offered }) =>
      (offered.get(resource) ?? 0) - askedOn(node, resource, pods) >= number,
  )
  if (hasRoom) return undefined
  const most = Math.max(...offering.map(({ offered }) => offered.get(resource) ?? 0))
  if (most < number) return `ask for at most ${most}: no node offers ${number} of ${resource}`
  return `all is in use: end a Pod that has it, or raise the capacity of ${configuration}`
}
