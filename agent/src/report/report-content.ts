import type {
  Membership,
  NodeReport,
  PodToEnd,
  ReportCounts,
  ReportedStatus,
  UsedSlot,
} from '@akrijs/api'
import { keyParts, type ObjectKey } from '@akrijs/kube/objects'

/** The part of a NodeReport that its agent writes. */
export interface ReportContent extends Omit<NodeReport, 'apiVersion' | 'kind' | 'metadata'> {
  /** The slots that containers use, by the key of the Instance: no program reads them. */
  readonly slots?: Readonly<Record<string, unknown>>
}

interface ReportDraft {
  /** The name of the agent's Pod, if it runs in a Pod. */
  readonly agentPod: string | undefined
  readonly agentNamespace: string | undefined
  readonly statuses: ReadonlyMap<ObjectKey, ReportedStatus>
  readonly memberships: ReadonlyMap<ObjectKey, Membership>
  readonly slots: ReadonlyMap<ObjectKey, readonly UsedSlot[]>
  readonly podsToEnd: ReadonlyMap<ObjectKey, PodToEnd>
  /** The present report: its entries have the room first. */
  readonly present: Pick<NodeReport, 'configurations'> | undefined
}

/** The most of a report, of the 1.5 MB that etcd takes. */
export const REPORT_BOUNDS = {
  /** The bytes of all statuses as JSON. */
  statusBytes: 1_000_000,
  /** The number of memberships, each with at most 300 bytes: the first ones. */
  memberships: 1000,
  /** The bytes of all slots as JSON. */
  slotBytes: 100_000,
  /** The slots of one Instance. */
  slotsOfInstance: 50,
  /** The Pods to end, each with at most 700 bytes. The next ones have room when these are gone. */
  podsToEnd: 100,
}

/**
 * The content of a report within its bounds. If the statuses or the slots have no room, the
 * namespaces take turns: a namespace with many Configurations leaves room for those of other
 * namespaces.
 */
export function reportContent(
  { agentPod, agentNamespace, statuses, memberships, slots, podsToEnd, present }: ReportDraft,
  lowered: Partial<typeof REPORT_BOUNDS> = {},
): ReportContent {
  const bounds = { ...REPORT_BOUNDS, ...lowered }
  const isPresent = ([key, { uid }]: readonly [ObjectKey, ReportedStatus]) =>
    present?.configurations[key]?.uid === uid
  const configurations = withinBounds(statuses, isPresent, bounds.statusBytes)
  const first = new Map(
    [...slots].map(([key, used]) => [key, used.slice(0, bounds.slotsOfInstance)]),
  )
  const used = withinBounds(first, () => true, bounds.slotBytes)
  const leftOut = statuses.size - configurations.length
  return {
    ...(agentPod === undefined ? {} : { agentPod }),
    ...(agentNamespace === undefined ? {} : { agentNamespace }),
    counts: { ...countsOf(statuses), ...(leftOut > 0 && { leftOut }) },
    configurations: Object.fromEntries(configurations),
    memberships: Object.fromEntries([...memberships].slice(0, bounds.memberships).sort(byKey)),
    ...(used.length > 0 && { slots: Object.fromEntries(used) }),
    ...(podsToEnd.size > 0 && {
      podsToEnd: Object.fromEntries([...podsToEnd].sort(byKey).slice(0, bounds.podsToEnd)),
    }),
  }
}

type Entry<T> = readonly [ObjectKey, T]

/** @param isPresent whether an entry has the room before others of its namespace */
function withinBounds<T>(
  all: ReadonlyMap<ObjectKey, T>,
  isPresent: (entry: Entry<T>) => boolean,
  most: number,
): Entry<T>[] {
  const entries = [...all].sort(byKey)
  const inOrder = [...entries.filter(isPresent), ...entries.filter((entry) => !isPresent(entry))]
  const counts = new Map<string, number>()
  const inTurn = inOrder.map((entry) => {
    const [key] = entry
    const { namespace } = keyParts(key)
    const turn = counts.get(namespace) ?? 0
    counts.set(namespace, turn + 1)
    return { entry, turn }
  })
  let room = most
  return inTurn
    .sort((a, b) => a.turn - b.turn)
    .filter(({ entry }) => {
      const size = bytesOf(...entry)
      if (size > room) return false
      room -= size
      return true
    })
    .map(({ entry }) => entry)
    .sort(byKey)
}

function countsOf(statuses: ReportDraft['statuses']): Omit<ReportCounts, 'leftOut'> {
  const all = [...statuses.values()]
  return {
    configurations: all.length,
    ready: all.filter(({ conditions }) =>
      conditions.some(({ type, status }) => type === 'Ready' && status === 'True'),
    ).length,
    devices: all.reduce((sum, { devices }) => sum + devices, 0),
  }
}

function bytesOf(key: ObjectKey, value: unknown): number {
  return Buffer.byteLength(JSON.stringify({ [key]: value }))
}

function byKey([a]: readonly [ObjectKey, unknown], [b]: readonly [ObjectKey, unknown]): number {
  return a < b ? -1 : 1
}
