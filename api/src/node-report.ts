import type { NodeName, ObjectKey, ObjectMeta } from '@akrijs/kube/objects'
import { objectMessage } from '@akrijs/runtime'
import * as z from 'zod'
import { parseObjectMeta } from './api-objects.js'
import { API_VERSION } from './names.js'
import { orDefault, withoutUndefined } from './optional-fields.js'
import type { Membership, NodeReport, ReportCounts, ReportedStatus } from './types.js'

// A report as an API server returns it. Without the policy for nodes, any agent can write any
// report: an entry that makes no sense is left out, and the others count.

/** The most devices with a problem of one Configuration: an agent hears of 100 at most. */
const MAX_DEVICE_PROBLEMS = 200

const count = z.number().int().min(0)
const condition = z.object({
  type: z.enum(['HandlerConnected', 'Discovering', 'Ready']),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().regex(/^[A-Za-z]{1,64}$/),
  message: z.string().transform(objectMessage),
})
const deviceProblem = z.object({
  reason: z.string().transform(objectMessage),
  // What an agent of a later version finds counts as reported by its handler.
  found: z.enum(['HandlerLost', 'DeviceRefused', 'DeviceLost']).optional().catch(undefined),
  instances: z.array(z.string()).max(MAX_DEVICE_PROBLEMS),
})
const reportedStatus = z.object({
  uid: z.string(),
  observedGeneration: count,
  devices: count,
  leftOut: count.optional(),
  conditions: z.array(condition).max(3),
  deviceProblems: z.array(deviceProblem).max(MAX_DEVICE_PROBLEMS).optional().catch(undefined),
})

/** A mapping by keys of objects, without the entries that do not fit the schema. */
function byKey<T extends z.ZodType>(entry: T) {
  const isKey = /^[^/]+\/[^/]+$/
  return orDefault(z.record(z.string(), z.unknown()), {}).transform((entries) => {
    const valid = Object.entries(entries).flatMap(([key, value]) => {
      const parsed = isKey.test(key) ? entry.safeParse(value) : undefined
      return parsed?.success ? [[key, parsed.data] as const] : []
    })
    return Object.fromEntries(valid) as Readonly<Record<string, z.output<T>>>
  })
}

const report = z.object({
  agentPod: z.string().optional().catch(undefined),
  agentNamespace: z.string().optional().catch(undefined),
  counts: z
    .object({ configurations: count, ready: count, devices: count, leftOut: count.optional() })
    .catch({ configurations: 0, ready: 0, devices: 0 }),
  configurations: byKey(reportedStatus).catch({}),
  memberships: byKey(z.object({ uid: z.string(), wish: z.enum(['join', 'leave']) })).catch({}),
  podsToEnd: byKey(z.object({ uid: z.string(), slot: z.string().transform(objectMessage) })).catch(
    {},
  ),
})

/**
 * Reads a NodeReport of a server.
 * @returns undefined if the value is no object of the API
 */
export function parseNodeReport(object: unknown): NodeReport | undefined {
  const metadata = parseObjectMeta(object)
  const parsed = report.safeParse(object)
  if (metadata === undefined || !parsed.success) return undefined
  const { agentPod, agentNamespace, counts, configurations, memberships, podsToEnd } = parsed.data
  return {
    apiVersion: API_VERSION,
    kind: 'NodeReport',
    metadata: metadata as ObjectMeta<NodeName>,
    ...(agentPod === undefined ? {} : { agentPod }),
    ...(agentNamespace === undefined ? {} : { agentNamespace }),
    counts: withoutUndefined(counts) as ReportCounts,
    configurations: withoutUndefined(configurations) as Readonly<Record<ObjectKey, ReportedStatus>>,
    memberships: memberships as Readonly<Record<ObjectKey, Membership>>,
    ...(Object.keys(podsToEnd).length > 0 && { podsToEnd }),
  }
}
