import type { BrokerSpec, RollingUpdate, UpdateStrategy } from '@akrijs/api'
import { specHash } from '../labels.js'
import { type NodeObstacle, nodeObstacleOf } from './node-fit.js'

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
