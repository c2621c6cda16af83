import type {
  Configuration,
  DeviceProblem,
  Membership,
  NodeReport,
  NodeStatus,
  PodToEnd,
  ReportCounts,
  ReportedStatus,
} from '@akrijs/api'
import { keyParts, type ObjectKey } from '@akrijs/kube/objects'
import { isRecord, objectMessage } from '@akrijs/runtime'
import type { SlotsInUse } from '../cluster/cluster.js'
import { REPORT_BOUNDS } from '../limits.js'

/** The part of a NodeReport that its agent writes. */
export interface ReportContent extends Omit<NodeReport, 'apiVersion' | 'kind' | 'metadata'> {
  /** The slots that containers use, by the key of the Instance: no program reads them. */
  readonly slots?: Readonly<Record<string, unknown>>
}

/** The report on the server. */
export interface StoredReport {
  /** The fields that the agent writes, as they are. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly report: NodeReport | undefined
}

export interface ReportedOnNode {
  readonly status: NodeStatus
  /** Undefined if this agent does not know them yet. */
  readonly problems: readonly DeviceProblem[] | undefined
}

/** A Configuration whose newest version is invalid. */
export interface InvalidConfiguration extends Pick<Configuration, 'metadata'> {
  readonly problem: string
}

interface ReportDraft {
  /** The name of the agent's Pod, if it runs in a Pod. */
  readonly agentPod?: string | undefined
  readonly agentNamespace?: string | undefined
  readonly statuses: ReadonlyMap<ObjectKey, ReportedOnNode>
  readonly invalid: ReadonlyMap<ObjectKey, InvalidConfiguration>
  /** In the order in which the report has room for them. */
  readonly memberships: ReadonlyMap<ObjectKey, Membership>
  /** Undefined until this agent knows them. */
  readonly slots: SlotsInUse | undefined
  readonly podsToEnd: ReadonlyMap<ObjectKey, PodToEnd>
  /** After a start, what the agent before knew stays until this agent knows better. */
  readonly stored: StoredReport | undefined
  /** The uid of a Configuration that exists. */
  uidOf(configuration: ObjectKey): string | undefined
}

/**
 * The content of a report within its bounds. If the statuses or the slots have no room, the
 * namespaces take turns: a namespace with many Configurations leaves room for those of other
 * namespaces.
 */
export function reportContent(
  draft: ReportDraft,
  lowered: Partial<typeof REPORT_BOUNDS> = {},
): ReportContent {
  const { agentPod, agentNamespace, memberships, podsToEnd, slots, stored } = draft
  const bounds = { ...REPORT_BOUNDS, ...lowered }
  const statuses = statusesOf(draft)
  const configurations = withinBounds(statuses, bounds.statusBytes)
  const leftOut = statuses.size - configurations.length
  const before = isRecord(stored?.fields.slots) ? stored.fields.slots : {}
  const used = slots === undefined ? before : slotsWithin(slots, bounds)
  return {
    ...(agentPod === undefined ? {} : { agentPod }),
    ...(agentNamespace === undefined ? {} : { agentNamespace }),
    counts: { ...countsOf(statuses), ...(leftOut > 0 && { leftOut }) },
    configurations: Object.fromEntries(configurations),
    memberships: Object.fromEntries([...memberships].slice(0, bounds.memberships).sort(byKey)),
    ...(Object.keys(used).length > 0 && { slots: used }),
    ...(podsToEnd.size > 0 && {
      podsToEnd: Object.fromEntries([...podsToEnd].sort(byKey).slice(0, bounds.podsToEnd)),
    }),
  }
}

/** A status as a cluster stores it: a message can quote a handler, a device or an author. */
export function storedStatus(status: NodeStatus): NodeStatus {
  const conditions = status.conditions.map((condition) => ({
    ...condition,
    message: objectMessage(condition.message),
  }))
  return { ...status, conditions }
}

/** The problems as a cluster stores them: the reasons can be texts of handlers. */
export function storedProblems(problems: readonly DeviceProblem[]): readonly DeviceProblem[] {
  return problems.map((problem) => ({ ...problem, reason: objectMessage(problem.reason) }))
}

/** The problems that last until a handler reports again. The agent finds the others each time. */
export function reportedByHandler(
  problems: readonly DeviceProblem[] | undefined,
): readonly DeviceProblem[] | undefined {
  return problems?.filter(({ found }) => found === undefined)
}

type Statuses = Map<ObjectKey, ReportedStatus>

function statusesOf({ statuses, invalid, stored, uidOf }: ReportDraft): Statuses {
  const all: Statuses = new Map()
  for (const [name, status] of Object.entries(stored?.report?.configurations ?? {}))
    if (uidOf(name as ObjectKey) === status.uid) all.set(name as ObjectKey, status)
  for (const [key, { status, problems }] of statuses) {
    const uid = uidOf(key)
    if (uid === undefined) continue
    const deviceProblems = problems ?? reportedByHandler(all.get(key)?.deviceProblems) ?? []
    all.set(key, { uid, ...status, ...(deviceProblems.length > 0 && { deviceProblems }) })
  }
  for (const [key, configuration] of invalid)
    all.set(key, invalidStatus(configuration, statuses.get(key)?.status))
  return all
}

function invalidStatus(
  { metadata, problem }: InvalidConfiguration,
  before: NodeStatus | undefined,
): ReportedStatus {
  const ready = {
    type: 'Ready',
    status: 'False',
    reason: 'InvalidConfiguration',
    message: objectMessage(problem),
  } as const
  const others = before?.conditions.filter(({ type }) => type !== 'Ready') ?? []
  return {
    uid: metadata.uid,
    observedGeneration: metadata.generation,
    devices: before?.devices ?? 0,
    conditions: [...others, ready],
  }
}

function slotsWithin(slots: SlotsInUse, bounds: typeof REPORT_BOUNDS): Record<string, unknown> {
  const first = new Map(
    [...slots].map(([key, used]) => [key, used.slice(0, bounds.slotsOfInstance)]),
  )
  return Object.fromEntries(withinBounds(first, bounds.slotBytes))
}

type Entry<T> = readonly [ObjectKey, T]

/** The first entries of each namespace, then the second ones, until the bytes are used up. */
function withinBounds<T>(all: ReadonlyMap<ObjectKey, T>, bytes: number): Entry<T>[] {
  const turns = new Map<string, number>()
  const inTurn = [...all].sort(byKey).map((entry) => {
    const { namespace } = keyParts(entry[0])
    const turn = turns.get(namespace) ?? 0
    turns.set(namespace, turn + 1)
    return { entry, turn }
  })
  let room = bytes
  return inTurn
    .sort((a, b) => a.turn - b.turn)
    .flatMap(({ entry }) => {
      const size = Buffer.byteLength(JSON.stringify({ [entry[0]]: entry[1] }))
      if (size > room) return []
      room -= size
      return [entry]
    })
    .sort(byKey)
}

function countsOf(statuses: Statuses): Omit<ReportCounts, 'leftOut'> {
  const all = [...statuses.values()]
  const isReady = ({ conditions }: ReportedStatus) =>
    conditions.some(({ type, status }) => type === 'Ready' && status === 'True')
  return {
    configurations: all.length,
    ready: all.filter(isReady).length,
    devices: all.reduce((sum, { devices }) => sum + devices, 0),
  }
}

function byKey([a]: Entry<unknown>, [b]: Entry<unknown>): number {
  return a < b ? -1 : 1
}
