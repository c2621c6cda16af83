import type { BrokerSpec, Instance, RollingUpdate, UpdateStrategy } from '@akrijs/api'
import { keyOf, type NodeName, objectKey } from '@akrijs/kube'
import type { FirstSights } from '../first-sights.js'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { specHash } from '../labels.js'
import type { Term } from '../term.js'
import { type NodeObstacle, nodeObstacleOf } from './node-fit.js'
import { type PodPlan, planPods } from './pod-plan.js'

/** The Pods that a Configuration specifies, and how they are updated. */
export interface PodTemplate {
  readonly spec: Readonly<Record<string, unknown>>
  /** The hash of the spec; undefined if no Pod is specified. */
  readonly hash: string | undefined
  /** What keeps a new Pod from a node. */
  readonly obstacleOn: NodeObstacle
  readonly strategy: UpdateStrategy
  readonly maxUnavailable: RollingUpdate['maxUnavailable']
}

/** A spec can have 1.5 MB, and each look at each Instance needs its template. */
const templates = new WeakMap<BrokerSpec, PodTemplate>()

export function podTemplateOf({
  brokerSpec,
}: {
  readonly brokerSpec?: BrokerSpec | undefined
}): PodTemplate {
  const known = brokerSpec && templates.get(brokerSpec)
  if (known !== undefined) return known
  const template = templateOf(brokerSpec)
  if (brokerSpec !== undefined) templates.set(brokerSpec, template)
  return template
}

function templateOf(brokerSpec: BrokerSpec | undefined): PodTemplate {
  const isPod = brokerSpec !== undefined && 'brokerPodSpec' in brokerSpec
  const spec = isPod ? brokerSpec.brokerPodSpec : {}
  const { type = 'RollingUpdate', rollingUpdate } = brokerSpec?.updateStrategy ?? {}
  return {
    spec,
    hash: isPod ? specHash(spec) : undefined,
    obstacleOn: nodeObstacleOf(spec),
    strategy: type,
    maxUnavailable: rollingUpdate?.maxUnavailable,
  }
}

/**
 * How long the first broker of an Instance waits for nodes to join, in milliseconds, unless all
 * nodes have: agents write at moments that are spread over a time that grows with the number of
 * nodes.
 */
const CHOICE_MS = 2000
const CHOICE_PER_NODE_MS = 20
const MAX_CHOICE_MS = 4000

/** In place of the uid of the last Pod of a node: the controller itself has removed it. */
const REMOVED = ''

/** The plan for the Pods of an Instance, from the caches. */
export function planInstance(
  instance: Instance,
  { hash, obstacleOn, strategy }: PodTemplate,
  term: Term,
): PodPlan {
  const { state, clock, sights } = term
  const pods = state.pods.ownedBy('Instance', instance)
  for (const pod of pods) if (!isDeleted(pod)) sightLast(instance, pod.targetNode, pod, sights)
  return planPods({
    instance,
    specHash: hash,
    strategy,
    pods,
    isUsable: (node) => obstacleOn(state.nodes.cache.get(objectKey('', node))) === undefined,
    isAway: (node) => !state.isReady(node),
    lastOn: (node) => {
      const last = sights.last(placeOf(instance, node))
      return last && last.fact !== REMOVED ? { uid: last.fact, ageMs: last.ageMs } : undefined
    },
    choiceAt: choiceAt(instance, term),
    now: clock.monotonicMs(),
  })
}

/**
 * Dates the last Pod of a node: after another client has deleted it, nothing else shows its age.
 * @param pod the Pod that is there; undefined after the controller itself has removed it
 */
export function sightLast(
  instance: Instance,
  node: NodeName | undefined,
  pod: Pod | undefined,
  sights: Pick<FirstSights, 'ageMs'>,
): void {
  if (node !== undefined) sights.ageMs(placeOf(instance, node), pod?.metadata.uid ?? REMOVED)
}

const placeOf = ({ metadata: { uid } }: Instance, node: NodeName) => `broker of ${uid} on ${node}`

/**
 * When the nodes of an Instance are known well enough to choose among them, by `monotonicMs`.
 * Otherwise all brokers would run on the node that is the quickest.
 */
function choiceAt(instance: Instance, { state, clock, sights }: Term): number {
  const { metadata, spec } = instance
  const now = clock.monotonicMs()
  if (!spec.shared) return now
  const ageMs = sights.ageMs(`Instance ${keyOf(instance)}`, metadata.uid)
  const ready = state.nodes.cache.list().filter((node) => node.ready)
  const withAgent = ready.filter(
    (node) => state.reportIndex.presence(node.metadata.name as NodeName) === 'present',
  )
  // Agents of the existing system do not report.
  const nodes = withAgent.length || ready.length
  // Every node has a broker, or has joined.
  if (spec.capacity >= nodes || spec.nodes.length >= nodes) return now
  const waitMs = Math.min(MAX_CHOICE_MS, CHOICE_MS + CHOICE_PER_NODE_MS * nodes)
  return now + waitMs - ageMs
}
