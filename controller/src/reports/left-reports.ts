import type { NodeReport } from '@akrijs/api'
import { ApiError, type NodeName, objectKey, type RecheckAfter } from '@akrijs/kube'
import type { Pod } from '../kubernetes-objects.js'
import { graceLeftMs, isReplacedByOther } from '../nodes/node-presence.js'
import type { Term } from '../term.js'

/** When a report is looked at again whose node is still in an Instance, in milliseconds. */
const RECHECK_MS = 10_000

/**
 * Deletes the report of an agent that was deleted, for example because the DaemonSet selects fewer
 * nodes. With a Node, the garbage collector deletes its report.
 */
export async function reconcileLeftReport(
  node: NodeName,
  term: Term,
  signal: AbortSignal,
  recheckAfter: RecheckAfter,
): Promise<void> {
  const { state, log } = term
  const key = objectKey('', node)
  const report = state.reports.cache.get(key)
  const leftMs = graceLeftMs(node, term)
  if (report === undefined || leftMs === undefined) return
  if (leftMs > 0) return recheckAfter(leftMs)
  if (state.instancesByNode.has(node) && (await isNeeded(report, term, signal)))
    return recheckAfter(RECHECK_MS)
  const { uid, resourceVersion } = report.metadata
  try {
    await state.reports.api.delete(key, { uid, resourceVersion }, { signal })
    log.info({ node }, 'report of a node without an agent deleted')
  } catch (error) {
    // An agent has written the report meanwhile.
    if (!ApiError.is(error, 409)) throw error
  }
}

/**
 * Whether the report of a node is needed to take the node out of its Instances: only a report shows
 * that an agent has left. The next agent may never start, and then leave too.
 */
async function isNeeded(
  { metadata: { name: node }, agentNamespace }: NodeReport,
  term: Term,
  signal: AbortSignal,
): Promise<boolean> {
  const { state, clock, nodeGraceMs } = term
  const presence = state.reportIndex.presence(node)
  if (presence === 'left') return !(await isReplacedByOther(node, term, signal))
  // Without its namespace, an agent never counts as one that has left.
  if (presence !== 'exchanged' || agentNamespace === undefined) return false
  // An agent of Akri 0.13 works without a report.
  const works = ({ ready, readySince }: Pod) =>
    ready && readySince + nodeGraceMs <= clock.monotonicMs()
  return !state.reportIndex.agentsOn(node).some(works)
}
