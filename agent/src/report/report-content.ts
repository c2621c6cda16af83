import type {
  Configuration,
  DeviceProblem,
  Membership,
  NodeReport,
  NodeStatus,
  PodToEnd,
  ReportedStatus,
} from '@akrijs/api'
import { keyParts, type ObjectKey } from '@akrijs/kube/objects'
import { objectMessage } from '@akrijs/runtime'
import type { SlotsInUse } from '../cluster/cluster.js'
import { REPORT_BOUNDS } from '../limits.js'

/** The report on the server. */
export interface StoredReport {
  /** The fields that the agent writes, as they are. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly report: NodeReport | undefined
}

/** Without problems of devices, if this agent does not know them yet. */
export type KnownStatus = Omit<ReportedStatus, 'uid'>

/** A Configuration whose newest version is invalid. */
export interface InvalidConfiguration extends Pick<Configuration, 'metadata'> {
  readonly problem: string
}

interface ReportDraft {
  /** The name of the agent's Pod, if it runs in a Pod. */
  readonly agentPod?: string | undefined
  readonly agentNamespace?: string | undefined
  readonly statuses: ReadonlyMap<ObjectKey, KnownStatus>
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
 * The part of a NodeReport that its agent writes, within its bounds; a field that is undefined is
 * absent. If the statuses or the slots have no room, the namespaces take turns: a namespace with
 * many Configurations leaves room for those of other namespaces.
 */
export function reportContent(draft: ReportDraft, lowered: Partial<typeof REPORT_BOUNDS> = {}) {
  const { agentPod, agentNamespace, memberships, podsToEnd, slots, stored } = draft
  const bounds = { ...REPORT_BOUNDS, ...lowered }
  const statuses = statusesOf(draft)
  const configurations = withinBounds(statuses, bounds.statusBytes)
  const all = [...statuses.values()]
  const leftOut = all.length - configurations.length
  const used = [...(slots ?? [])].map(
    ([key, ofInstance]) => [key, ofInstance.slice(0, bounds.slotsOfInstance)] as const,
  )
  return {
    agentPod,
    agentNamespace,
    counts: {
      configurations: all.length,
      ready: all.filter(isReady).length,
      devices: all.reduce((sum, { devices }) => sum + devices, 0),
      ...(leftOut > 0 && { leftOut }),
    },
    configurations: Object.fromEntries(configurations),
    memberships: Object.fromEntries([...memberships].slice(0, bounds.memberships).sort(byKey)),
    // By the key of the Instance, for people: no program reads the slots.
    slots: slots ? fieldOf(withinBounds(used, bounds.slotBytes)) : stored?.fields.slots,
    podsToEnd: fieldOf([...podsToEnd].sort(byKey).slice(0, bounds.podsToEnd)),
  }
}

/** No field without an entry. */
function fieldOf(entries: readonly Entry<unknown>[]): object | undefined {
  return entries.length > 0 ? Object.fromEntries(entries) : undefined
}

/** The problems that last until a handler reports again. The agent finds the others each time. */
export function reportedByHandler(problems: readonly DeviceProblem[] | undefined) {
  return problems?.filter(({ found }) => found === undefined)
}

function statusesOf({ statuses, invalid, stored, uidOf }: ReportDraft) {
  const all = new Map<ObjectKey, ReportedStatus>()
  for (const [name, status] of Object.entries(stored?.report?.configurations ?? {}))
    if (uidOf(name as ObjectKey) === status.uid) all.set(name as ObjectKey, status)
  for (const [key, known] of statuses) {
    const uid = uidOf(key)
    if (uid === undefined) continue
    const before = reportedByHandler(all.get(key)?.deviceProblems)
    const { deviceProblems = before ?? [], ...status } = known
    all.set(key, { ...status, uid, ...(deviceProblems.length > 0 && { deviceProblems }) })
  }
  for (const [key, configuration] of invalid)
    all.set(key, invalidStatus(configuration, statuses.get(key)))
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

type Entry<T> = readonly [ObjectKey, T]

/** The first entries of each namespace, then the second ones, until the bytes are used up. */
function withinBounds<T>(all: Iterable<Entry<T>>, bytes: number): Entry<T>[] {
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

function isReady({ conditions }: ReportedStatus): boolean {
  return conditions.some(({ type, status }) => type === 'Ready' && status === 'True')
}

function byKey([a]: Entry<unknown>, [b]: Entry<unknown>): number {
  return a < b ? -1 : 1
}
