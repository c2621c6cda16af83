import { createHash } from 'node:crypto'
import { MAX_LABEL, shortened } from '@akrijs/api'
import type { ObjectMeta } from '@akrijs/kube'

/** The labels of all objects that the controller creates. */
export const LABELS = {
  app: 'app',
  controller: 'controller',
  configuration: 'akri.sh/configuration',
  instance: 'akri.sh/instance',
  targetNode: 'akri.sh/target-node',
} as const

/** The label by which a Deployment tells the Pods of its ReplicaSets apart. */
export const TEMPLATE_HASH = 'pod-template-hash'

/** The value of the label `controller`, which the watches of the controller select. */
export const CONTROLLER = 'akri.sh'

/** The Pods of agents, in the manifests, in the chart and in that of the existing system. */
export const AGENT_SELECTOR = 'app.kubernetes.io/name=akri-agent'

export const ANNOTATIONS = {
  /** The hash of the spec that an object was made from. */
  specHash: 'akri.sh/broker-spec-hash',
  /** How often in a row the broker was restarted after it had ended. */
  restarts: 'akri.sh/restarts',
  /** Of an Instance: what its brokers that have gone leave to their successors. */
  brokers: 'akri.sh/brokers',
  /** The node of a broker Pod: its name may be too long for a label. */
  targetNode: 'akri.sh/target-node',
} as const

/** The longest name of a Pod or a Deployment. */
const MAX_NAME = 253

/** A name of an object: names of nodes can contain dots, names of some objects cannot. */
export function objectName(text: string): string {
  return shortened(text.replaceAll('.', '-'), MAX_NAME)
}

/** A name of a Job: its Pods have the name as a label. */
export function jobObjectName(text: string): string {
  return shortened(text.replaceAll('.', '-'), MAX_LABEL)
}

/** A name of a Service: one label of a host name that begins with a letter (RFC 1035). */
export function serviceName(text: string): string {
  const label = text.replaceAll('.', '-')
  return shortened(/^[a-z]/.test(label) ? label : `akri-${label}`, MAX_LABEL)
}

/** Replaces a name that is taken. The new name suits every kind of object. */
export function alternativeName(name: string, purpose: string): string {
  return shortened(`${name}-${digest(purpose)}`, MAX_LABEL)
}

/** Specs can have 1.5 MB, and each look at each object needs their hash. */
const hashes = new WeakMap<object, string>()

/** The same for equal values, whatever the order of their keys. */
export function specHash(spec: object): string {
  const hash = hashes.get(spec) ?? digest(canonical(spec))
  hashes.set(spec, hash)
  return hash
}

/** The hash of the spec that an object was made from; undefined for versions without hashes. */
export function specHashOf(object: { readonly metadata: ObjectMeta<string> }): string | undefined {
  return object.metadata.annotations?.[ANNOTATIONS.specHash]
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 10)
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined)
  return `{${entries
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`)
    .join()}}`
}
