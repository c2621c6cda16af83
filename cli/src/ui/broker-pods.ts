import { GROUP, parseObjectMeta } from '@akrijs/api'
import type { UiBroker } from '@akrijs/ui'
import { podFacts } from '../explain/cluster-facts.js'

/** The objects of the controller. Its Pods for a Configuration as a whole name no Instance. */
export const BROKER_PODS = { labelSelector: `controller=${GROUP}` }
/** The label with the Instance of a broker Pod. Names of Instances are never too long for it. */
const INSTANCE_LABEL = `${GROUP}/instance`

/** A Pod of a broker. */
export interface BrokerPod {
  readonly metadata: NonNullable<ReturnType<typeof parseObjectMeta>>
  readonly instance: string
  readonly broker: UiBroker
}

/** @returns undefined if the object is no Pod of a broker */
export function readBrokerPod(object: unknown): BrokerPod | undefined {
  const metadata = parseObjectMeta(object)
  const instance = metadata?.labels?.[INSTANCE_LABEL]
  const facts = podFacts(object)
  if (metadata === undefined || instance === undefined || facts === undefined) return undefined
  return { metadata, instance, broker: stateOf(metadata.name, facts) }
}

/** What the kubelet says of a container that begins. */
const STARTING = /^($|ContainerCreating|PodInitializing)/

type PodState = Pick<NonNullable<ReturnType<typeof podFacts>>, 'phase' | 'why'>

function stateOf(name: string, { phase, why }: PodState): UiBroker {
  const reason = [`Pod ${name}`, why].filter(Boolean).join(': ')
  if (phase === 'Succeeded') return { phase: 'completed' }
  if (phase === 'Failed') return { phase: 'failed', reason }
  if (phase === 'Running' && why === '') return { phase: 'running' }
  return { phase: 'waiting', reason: STARTING.test(why) ? 'starting' : reason }
}

const ENDED = ['completed', 'failed']
/** The state that a person should know first. */
const ORDER = ['failed', 'waiting', 'running', 'completed']

/**
 * The state of the broker of an Instance, which can have a Pod on each node. Pods that have ended
 * count if there is no other: the newest, as a Job replaces a Pod that failed.
 */
export function brokerOf(pods: readonly BrokerPod[]): UiBroker | undefined {
  const present = pods.filter(({ broker }) => !ENDED.includes(broker.phase))
  const newest = pods.toSorted((a, b) => createdAt(b).localeCompare(createdAt(a))).slice(0, 1)
  const states = (present.length > 0 ? present : newest).map(({ broker }) => broker)
  const rank = ({ phase, reason }: UiBroker) =>
    ORDER.indexOf(phase) + (reason === 'starting' ? 0.5 : 0)
  return states.toSorted((a, b) => rank(a) - rank(b))[0]
}

function createdAt({ metadata }: BrokerPod): string {
  return metadata.creationTimestamp
}
