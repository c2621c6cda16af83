import { type ObjectKey, objectKey, PODS, Resource } from '@akrijs/kube'
import { Failures } from '../errors.js'
import type { Term } from '../term.js'
import { devicePodsOf } from './node-pods.js'

/** As the kubelet gives a Pod that it evicts for the room on its disk. */
const GRACE_SECONDS = 1

/**
 * Deletes the Pods that fill the disk of their node, as the report of the node says. Only Pods that
 * are on that node and ask for a device: without the policy for nodes, any agent can write any
 * report.
 * @throws ApiError, ApiUnreachableError
 */
export async function endPods(
  reportKey: ObjectKey,
  { state, client, events, log }: Term,
  signal: AbortSignal,
): Promise<void> {
  const { metadata, podsToEnd = {} } = state.reports.cache.get(reportKey) ?? {}
  if (metadata === undefined || Object.keys(podsToEnd).length === 0) return
  const { name: node } = metadata
  const pods = new Resource(client, PODS)
  const failures = new Failures()
  for await (const { namespace, name, uid } of devicePodsOf(node, { client, signal })) {
    const key = objectKey(namespace, name)
    const asked = podsToEnd[key]
    if (asked?.uid !== uid) continue
    const deleting = pods.delete(key, { uid }, { gracePeriodSeconds: GRACE_SECONDS, signal })
    if ((await failures.of(deleting)) !== true) continue
    events.record(
      {
        regarding: { apiVersion: 'v1', kind: 'Pod', key, uid },
        type: 'Warning',
        reason: 'DiskBoundExceeded',
        message:
          `The Pod is deleted: its container with the slot ${asked.slot} kept more than 1 MiB or ` +
          '1000 files in AKRI_BROKER_INFO_DIRECTORY, or files that its node cannot see',
      },
      uid,
    )
    log.warn({ pod: key, node, slot: asked.slot }, 'Pod that fills the disk of its node deleted')
  }
  failures.throwFirst()
}
