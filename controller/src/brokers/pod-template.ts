import type { BrokerSpec, RollingUpdate, UpdateStrategy } from '@akrijs/api'
import { specHash } from '../labels.js'
import { type NodeFit, nodeFitOf } from './node-fit.js'

/** The Pods that a Configuration specifies, and how they are updated. */
export interface PodTemplate {
  readonly spec: Readonly<Record<string, unknown>>
  /** The hash of the spec; undefined if no Pod is specified. */
  readonly hash: string | undefined
  readonly fits: NodeFit
  readonly strategy: UpdateStrategy
  readonly maxUnavailable: RollingUpdate['maxUnavailable']
}

export function podTemplateOf({
  brokerSpec,
}: {
  readonly brokerSpec?: BrokerSpec | undefined
}): PodTemplate {
  const isPod = brokerSpec !== undefined && 'brokerPodSpec' in brokerSpec
  const spec = isPod ? brokerSpec.brokerPodSpec : {}
  const { type = 'RollingUpdate', rollingUpdate } = brokerSpec?.updateStrategy ?? {}
  return {
    spec,
    hash: isPod ? specHash(spec) : undefined,
    fits: nodeFitOf(spec),
    strategy: type,
    maxUnavailable: rollingUpdate?.maxUnavailable,
  }
}
