import { createHash } from 'node:crypto'
import type { ObjectMeta, OwnerReference } from '@akrijs/kube'

/** Labels of everything that the controller makes. */
export const LABELS = {
  app: 'app',
  controller: 'controller',
  configuration: 'akri.sh/configuration',
  instance: 'akri.sh/instance',
  targetNode: 'akri.sh/target-node',
} as const

/** The value of the label `controller`, by which the controller finds what it may have made. */
export const CONTROLLER = 'akri.sh'

export const ANNOTATIONS = {
  /** Of the spec that a broker was made from. */
  specHash: 'akri.sh/broker-spec-hash',
  /** How often in a row the broker has been made again after it ended. */
  restarts: 'akri.sh/restarts',
  /** The node of a broker Pod: as a label's value its name may be too long. */
  targetNode: 'akri.sh/target-node',
} as const

/** The longest value of a label, and the longest name of a Service. */
const MAX_LABEL = 63
/** The longest name of a Pod or a Deployment. */
const MAX_NAME = 253

/** As the value of a label: one that is too long keeps its beginning, and a digest stands for the rest. */
export function labelValue(text: string): string {
  return shortened(text, MAX_LABEL)
}

/** As the name of an object: in names of resources dots are allowed, in those of some objects they are not. */
export function objectName(text: string): string {
  return shortened(text.replaceAll('.', '-'), MAX_NAME)
}

/** As the name of a Job, which its Pods carry as a label. */
export function jobObjectName(text: string): string {
  return shortened(text.replaceAll('.', '-'), MAX_LABEL)
}

/** As the name of a Service, which is one label of a host name and begins with a letter (RFC 1035). */
export function serviceName(text: string): string {
  const label = text.replaceAll('.', '-')
  return shortened(/^[a-z]/.test(label) ? label : `akri-${label}`, MAX_LABEL)
}

/** For a name that somebody else has taken: one that Jobs may have, too. @param of what the object is for, and no other */
export function alternativeName(name: string, of: string): string {
  return shortened(`${name}-${digest(of)}`, MAX_LABEL)
}

/** The same for equal values, whatever the order of their keys. */
export function specHash(spec: unknown): string {
  return digest(canonical(spec))
}

/** The owner that made an object and keeps it as it should be. */
export function controllerOf({
  ownerReferences,
}: Pick<ObjectMeta<string>, 'ownerReferences'>): OwnerReference | undefined {
  return ownerReferences?.find(({ controller }) => controller === true)
}

/** Whether an object is ours to change: not by its labels, which anybody can write, but by whom it belongs to. */
export function belongsTo(object: { readonly metadata: ObjectMeta<string> }, uid: string): boolean {
  return controllerOf(object.metadata)?.uid === uid
}

function shortened(text: string, length: number): string {
  if (text.length <= length) return text
  const rest = digest(text)
  return `${text.slice(0, length - rest.length - 1).replace(/[^a-z0-9]+$/i, '')}-${rest}`
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
