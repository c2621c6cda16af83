import { createHash } from 'node:crypto'
import type { NodeName } from '@akrijs/kube/objects'
import type { Instance } from './types.js'

/** The labels of Instances: an agent watches those of its node and the shared ones. */
const INSTANCE_LABELS = {
  /** The node of an Instance that is not shared. */
  node: 'akri.sh/node',
  /** `true` for a shared Instance. */
  shared: 'akri.sh/shared',
} as const

/** The longest value of a label. */
export const MAX_LABEL = 63

/** The selector of the Instances of a node that are not shared. */
export function nodeSelector(node: NodeName): string {
  return `${INSTANCE_LABELS.node}=${labelValue(node)}`
}

export const SHARED_SELECTOR = `${INSTANCE_LABELS.shared}=true`
/** The selector of the Instances of programs that write no labels. */
export const UNLABELLED_SELECTOR = `!${INSTANCE_LABELS.node},!${INSTANCE_LABELS.shared}`

export function isShownByNode({ metadata: { labels } }: Instance, node: NodeName): boolean {
  return labels?.[INSTANCE_LABELS.node] === labelValue(node)
}

export function isShownAsShared({ metadata: { labels } }: Instance): boolean {
  return labels?.[INSTANCE_LABELS.shared] === 'true'
}

/**
 * The labels that an Instance should have. An Instance that is not shared and that no node is in
 * has none: its node is not known.
 */
export function instanceLabels({
  shared,
  nodes: [node],
}: Pick<Instance['spec'], 'shared' | 'nodes'>): Readonly<Record<string, string>> {
  if (shared) return { [INSTANCE_LABELS.shared]: 'true' }
  return node === undefined ? {} : { [INSTANCE_LABELS.node]: labelValue(node) }
}

/** Whether an Instance lacks the labels that it should have. Labels are never changed. */
export function isUnlabelled({ metadata: { labels = {} }, spec }: Instance): boolean {
  return (
    labels[INSTANCE_LABELS.node] === undefined &&
    labels[INSTANCE_LABELS.shared] === undefined &&
    Object.keys(instanceLabels(spec)).length > 0
  )
}

/** A merge patch that adds the labels to this Instance, and to no other of its name. */
export function labelPatch(instance: Instance): object {
  const { uid } = instance.metadata
  return { metadata: { uid, labels: instanceLabels(instance.spec) } }
}

/** A value of a label. A digest replaces the end of a text that is too long. */
export function labelValue(text: string): string {
  return shortened(text, MAX_LABEL)
}

/** A text of at most this length. A digest replaces the end of a text that is too long. */
export function shortened(text: string, length: number): string {
  if (text.length <= length) return text
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 10)
  return `${text.slice(0, length - digest.length - 1).replace(/[^a-z0-9]+$/i, '')}-${digest}`
}
