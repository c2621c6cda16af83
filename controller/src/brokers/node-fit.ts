import * as z from 'zod'
import { type ClusterNode, isDeleted, lenient, type Taint } from '../kubernetes-objects.js'

// On which nodes a broker could run, as far as this can be known without the scheduler: readiness,
// labels and taints, not the room. What the API server refuses rules no node out: its answer says
// more.

const text = z.string().catch('')
const toleration = lenient({ key: text, operator: text, value: text, effect: text })
const requirement = lenient({
  key: text,
  operator: text,
  values: z.array(z.string()).catch([]),
})
const requirements = z.array(requirement).catch([])
const term = lenient({ matchExpressions: requirements, matchFields: requirements })
const podSpec = lenient({
  nodeSelector: z.record(z.string(), z.unknown()).catch({}),
  tolerations: z.array(toleration).catch([]),
  affinity: lenient({
    nodeAffinity: lenient({
      requiredDuringSchedulingIgnoredDuringExecution: z
        .object({ nodeSelectorTerms: z.array(term) })
        .optional()
        .catch(undefined),
    }),
  }),
})
type Toleration = z.output<typeof toleration>
type Requirement = z.output<typeof requirement>
type Term = z.output<typeof term>
type Labels = Readonly<Record<string, string>>

/** Why a new Pod cannot run on a node; undefined if it could. */
export type NodeObstacle = (node: ClusterNode | undefined) => string | undefined

/**
 * Tells for each node what keeps a new Pod of a spec away: the rules of the scheduler for
 * `nodeSelector`, required node affinity, and taints with the effects `NoSchedule` and `NoExecute`.
 */
export function nodeObstacleOf(spec: Readonly<Record<string, unknown>>): NodeObstacle {
  const { nodeSelector, tolerations, affinity } = podSpec.parse(spec)
  const selected = Object.entries(nodeSelector)
  const terms =
    affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms
  // There can be thousands of terms and tolerations, and each Instance asks for its nodes.
  const found = new WeakMap<ClusterNode, { readonly obstacle: string | undefined }>()
  const obstacleOn = (node: ClusterNode) => {
    if (!node.ready) return 'it is not ready'
    if (!node.schedulable) return 'it is cordoned'
    const labels = node.metadata.labels ?? {}
    const fields = { 'metadata.name': node.metadata.name }
    const missing = selected.find(
      ([label, value]) => typeof value === 'string' && labels[label] !== value,
    )
    if (missing !== undefined) return `the nodeSelector asks for ${missing.join('=')}`
    if (terms !== undefined && !terms.some((each) => isMatched(each, labels, fields)))
      return 'the node affinity does not match it'
    const taint = node.taints.find((each) => !tolerations.some((one) => isTolerated(each, one)))
    return taint && `the broker does not tolerate the taint ${textOf(taint)}`
  }
  return (node) => {
    if (node === undefined || isDeleted(node)) return 'it was deleted'
    const known = found.get(node) ?? { obstacle: obstacleOn(node) }
    found.set(node, known)
    return known.obstacle
  }
}

/** As `kubectl describe node` writes a taint. */
function textOf({ key, value, effect }: Taint): string {
  return `${key}${value && `=${value}`}:${effect}`
}

/** A term without requirements matches no node. */
function isMatched({ matchExpressions, matchFields }: Term, labels: Labels, fields: Labels) {
  return (
    matchExpressions.length + matchFields.length > 0 &&
    matchExpressions.every((each) => isMet(each, labels)) &&
    matchFields.every((each) => isMet(each, fields))
  )
}

function isTolerated(taint: Taint, { key, operator, value, effect }: Toleration): boolean {
  if (effect !== '' && effect !== taint.effect) return false
  if (key === '') return operator === 'Exists'
  if (key !== taint.key) return false
  if (operator === '' || operator === 'Equal') return value === taint.value
  return true
}

function isMet({ key, operator, values }: Requirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value)
    case 'NotIn':
      return value === undefined || !values.includes(value)
    case 'Exists':
      return value !== undefined
    case 'DoesNotExist':
      return value === undefined
    case 'Gt':
      return Number(value) > Number(values[0])
    case 'Lt':
      return Number(value) < Number(values[0])
    default:
      return true
  }
}
