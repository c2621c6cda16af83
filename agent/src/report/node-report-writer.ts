import { isDeepStrictEqual } from 'node:util'
import {
  API_VERSION,
  APPLY_CUSTOM_RESOURCES,
  type Configuration,
  customResourceName,
  type DeviceProblem,
  type Membership,
  NODE_REPORTS,
  type NodeReport,
  type NodeStatus,
  type PodToEnd,
  parseNodeReport,
  parseObjectMeta,
  type ReportedStatus,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  keyOf,
  mergePatchOf,
  NODES,
  type NodeName,
  type ObjectKey,
  objectKey,
  ReconcileQueue,
  type ReconcileResult,
  type Reflector,
  Resource,
} from '@akrijs/kube'
import {
  type Clock,
  isRecord,
  Listeners,
  type Logger,
  objectMessage,
  untilAborted,
} from '@akrijs/runtime'
import type { SlotsInUse } from '../cluster/cluster.js'
import { REPORT_BOUNDS, type ReportContent, reportContent } from './report-content.js'
import { reportedByHandler, storedProblems, storedStatus } from './stored-status.js'

interface NodeReportWriterOptions {
  readonly client: ApiClient
  readonly configurations: Reflector<Configuration>
  readonly node: NodeName
  /** The name of the agent's Pod. @default the agent does not run in a Pod */
  readonly agentPod?: string | undefined
  /** The namespace of that Pod. @default unknown */
  readonly agentNamespace?: string | undefined
  readonly clock: Clock
  readonly log: Logger
  /** The number of nodes in the cluster, as far as it is known. */
  knownNodes(): number
}

/** How long changes are gathered before they are written, in milliseconds. */
const GATHER_MS = 200
/**
 * For how much longer statuses are gathered, in milliseconds for each other node. A shared
 * device that comes or goes changes the status at once, and leads to a wish later: half of this
 * time is as long as the nodes take to create or to leave an Instance. A wish is written without
 * this wait, and the status with the wish.
 */
const STATUS_MS = 20
/** The longest of these times, in milliseconds. */
const MAX_STATUS_MS = 4000
/** How long room is gathered for wishes that a report has no room for, in milliseconds. */
const NEXT_WISHES_MS = 1000
/** How long changes of the slots that containers use are gathered, in milliseconds. */
const SLOTS_MS = 10_000
/**
 * All agents report the same change: each waits for a random time of at most so many milliseconds
 * for each node of the cluster.
 */
const SPREAD_MS = 2
/** The longest of these random times, in milliseconds. */
const MAX_SPREAD_MS = 1800
/** When the report is read again, in milliseconds: another program may have deleted it. */
const REREAD_MS = 600_000
/** How long the end of a wish is waited for, in milliseconds: a report may not be writable. */
const WITHDRAWAL_MS = 5000
/** When an agent without the custom resource looks for it again, in milliseconds. */
const MISSING_MS = 60_000

type Fields = Readonly<Record<string, unknown>>

/** The report on the server. */
interface StoredReport {
  /** The fields that the agent writes, as they are. */
  readonly fields: Fields
  readonly report: NodeReport | undefined
}

/**
 * Writes the NodeReport of this node when something has changed. No other program should write the
 * report: the agent does not watch it, and reads it at its start and from time to time.
 */
export class NodeReportWriter {
  readonly #options: NodeReportWriterOptions
  readonly #reports: Resource
  readonly #nodes: Resource
  readonly #random: () => number
  readonly #statuses = new Map<ObjectKey, StatusOfNode>()
  /** Invalid Configurations, with their problem. */
  readonly #invalid = new Map<ObjectKey, InvalidConfiguration>()
  /** In the order in which the report has room for them. */
  readonly #memberships = new Map<ObjectKey, Membership>()
  /** The slots that containers use; undefined until this agent knows them. */
  #slots: SlotsInUse | undefined
  #podsToEnd: ReadonlyMap<ObjectKey, PodToEnd> = new Map()
  readonly #queue: ReconcileQueue<NodeName>
  /** The report as the server last showed it; undefined if it has to be read. */
  #stored: StoredReport | undefined
  #readAt = 0
  /** Called when the report on the server is known again, or cannot be known. */
  readonly #known = new Listeners()
  /** How many wait for the end of a wish. */
  #withdrawals = 0
  #isOver = false
  /**
   * The content that the last correction has written, and what the server stored of it: a custom
   * resource of an earlier version drops fields that it does not have.
   */
  #corrected: { readonly content: ReportContent; readonly fields: Fields } | undefined
  /** When the custom resource was not installed, by `monotonicMs`; undefined after a success. */
  #missingAt: number | undefined

  /** @param random of [0, 1), for tests */
  constructor(options: NodeReportWriterOptions, random: () => number = Math.random) {
    this.#options = options
    this.#random = random
    this.#reports = new Resource(options.client, NODE_REPORTS)
    this.#nodes = new Resource(options.client, NODES)
    const { clock, log } = options
    this.#queue = new ReconcileQueue<NodeName>(
      {
        clock,
        gatherMs: GATHER_MS,
        reconcile: (_, signal) => this.#reconcile(signal),
        onError: (_, error, retryInMs) =>
          log.warn({ err: error, retryInMs }, 'report of the node not written'),
      },
      { random },
    )
  }

  async run(signal: AbortSignal): Promise<void> {
    const { configurations } = this.#options
    configurations.onChange((key) => {
      // Its successor may be invalid, and is in no cache.
      if (configurations.get(key) === undefined) this.#forgetStatus(key)
    }, signal)
    // Before that, the absence of a Configuration means nothing.
    await untilAborted(configurations.synced, signal)
    this.#queue.add(this.#options.node)
    await this.#queue.run(signal)
    this.#isOver = true
    this.#known.tell()
  }

  /** @param problems of devices. @default those of before that a handler reported */
  report(key: ObjectKey, status: NodeStatus, problems?: readonly DeviceProblem[]): void {
    const stored = {
      status: storedStatus(status),
      problems: problems
        ? storedProblems(problems)
        : reportedByHandler(this.#statuses.get(key)?.problems),
    }
    if (isDeepStrictEqual(this.#statuses.get(key), stored)) return
    this.#statuses.set(key, stored)
    this.#add()
  }

  valid(configuration: Configuration): void {
    if (this.#invalid.delete(keyOf(configuration))) this.#add()
  }

  invalid({ metadata }: Pick<Configuration, 'metadata'>, problem: string): void {
    const { uid, generation } = metadata
    this.#invalid.set(keyOf({ metadata }), { uid, generation, problem: objectMessage(problem) })
    this.#add()
  }

  /** Notes that there is no such Configuration. */
  forget(key: ObjectKey): void {
    if (this.#invalid.delete(key)) this.#add()
    this.#forgetStatus(key)
  }

  #forgetStatus(key: ObjectKey): void {
    if (this.#statuses.delete(key)) this.#add()
  }

  /** Whether the cluster has no custom resource for reports. */
  get isMissing(): boolean {
    return this.#missingAt !== undefined
  }

  /** The number of wishes, of which a report has {@link REPORT_BOUNDS}. */
  get memberships(): number {
    return this.#memberships.size
  }

  /** @param wish about a shared Instance; undefined to take a wish back with the next write */
  setMembership(instance: ObjectKey, wish: Membership | undefined): void {
    const { node } = this.#options
    if (wish === undefined) {
      if (!this.#memberships.delete(instance)) return
      // The next wish has room now.
      if (this.memberships >= REPORT_BOUNDS.memberships) this.#queue.add(node, NEXT_WISHES_MS)
    } else if (!isDeepStrictEqual(this.#memberships.get(instance), wish)) {
      this.#memberships.set(instance, wish)
      this.#queue.add(node)
    }
  }

  /**
   * Resolves when the report on the server does not ask to leave this Instance, or after
   * {@link WITHDRAWAL_MS}. The controller would take a node out again that joins before.
   */
  async leaveWithdrawn(instance: ObjectKey): Promise<void> {
    const { clock, node } = this.#options
    const isWithdrawn = () => this.#isOver || this.isMissing || !this.#asksToLeave(instance)
    if (isWithdrawn()) return
    const over = new AbortController()
    const withdrawn = new Promise<void>((resolve) =>
      this.#known.add(() => isWithdrawn() && resolve(), over.signal),
    )
    this.#withdrawals++
    this.#queue.add(node, 0)
    await Promise.race([withdrawn, clock.sleep(WITHDRAWAL_MS, over.signal)])
    this.#withdrawals--
    over.abort()
  }

  /** Also if it is not known. */
  #asksToLeave(instance: ObjectKey): boolean {
    const stored = this.#stored
    return stored === undefined || stored.report?.memberships?.[instance]?.wish === 'leave'
  }

  reportSlots(slots: SlotsInUse): void {
    if (isDeepStrictEqual(this.#slots, slots)) return
    this.#slots = slots
    this.#queue.add(this.#options.node, SLOTS_MS)
  }

  reportPodsToEnd(pods: ReadonlyMap<ObjectKey, PodToEnd>): void {
    if (isDeepStrictEqual(this.#podsToEnd, pods)) return
    this.#podsToEnd = pods
    this.#queue.add(this.#options.node)
  }

  #add(): void {
    this.#queue.add(this.#options.node, GATHER_MS + this.#statusMs)
  }

  get #statusMs(): number {
    return Math.min(MAX_STATUS_MS, STATUS_MS * Math.max(0, this.#options.knownNodes() - 1))
  }

  async #reconcile(signal: AbortSignal): Promise<ReconcileResult> {
    const { clock, knownNodes } = this.#options
    const now = clock.monotonicMs()
    const missingForMs = this.#missingAt === undefined ? undefined : now - this.#missingAt
    if (missingForMs !== undefined && missingForMs < MISSING_MS)
      return this.#later(MISSING_MS - missingForMs)
    const isStart = this.#readAt === 0
    if (this.#stored === undefined || this.#readAt + REREAD_MS <= now) await this.#read(signal)
    // The agent before may have asked to leave Instances that this agent serves.
    const hasOldWishes = isStart && Object.keys(this.#stored?.report?.memberships ?? {}).length > 0
    const isHurried = hasOldWishes || this.#withdrawals > 0
    if (isStart && !isHurried && this.#memberships.size === 0 && this.#statusMs > 0) {
      this.#add()
      return {}
    }
    if (this.#patch() === undefined) return this.#later(REREAD_MS)
    const spreadMs = isHurried ? 0 : Math.min(MAX_SPREAD_MS, SPREAD_MS * knownNodes())
    await clock.sleep(Math.round(this.#random() * spreadMs), signal)
    // A second write corrects what another program has written meanwhile.
    for (const isCorrection of [false, true]) {
      const patch = this.#patch()
      if (patch === undefined) break
      const fields = await this.#write(patch, signal)
      if (fields === undefined) return this.#later(MISSING_MS)
      if (isCorrection) this.#corrected = { content: patch.content, fields }
    }
    return this.#later(REREAD_MS)
  }

  /** Agents that start together do not ask together. */
  #later(ms: number): ReconcileResult {
    return { requeueAfterMs: ms * (1 + this.#random() / 2) }
  }

  /** @returns undefined if there is nothing to write */
  #patch(): { readonly content: ReportContent; readonly changes: object } | undefined {
    const content = this.#content()
    const fields = this.#stored?.fields ?? {}
    const changes = isDeepStrictEqual(this.#corrected, { content, fields })
      ? undefined
      : mergePatchOf(fields, { ...content })
    return changes && { content, changes }
  }

  #content(): ReportContent {
    const { configurations, agentPod, agentNamespace } = this.#options
    const present = this.#stored?.report
    const statuses = new Map<ObjectKey, ReportedStatus>()
    // After a start, statuses of the agent before stay until this agent has its first ones.
    for (const [key, status] of Object.entries(present?.configurations ?? {}))
      if (configurations.get(key as ObjectKey)?.metadata.uid === status.uid)
        statuses.set(key as ObjectKey, status)
    for (const [key, { status, problems }] of this.#statuses) {
      const uid = configurations.get(key)?.metadata.uid
      if (uid === undefined) continue
      const before = reportedByHandler(statuses.get(key)?.deviceProblems)
      const deviceProblems = problems ?? before ?? []
      statuses.set(key, { uid, ...status, ...(deviceProblems.length > 0 && { deviceProblems }) })
    }
    for (const [key, { uid, generation, problem }] of this.#invalid) {
      const before = this.#statuses.get(key)?.status
      const ready = {
        type: 'Ready',
        status: 'False',
        reason: 'InvalidConfiguration',
        message: problem,
      } as const
      statuses.set(key, {
        uid,
        observedGeneration: generation,
        devices: before?.devices ?? 0,
        conditions: [...(before?.conditions ?? []).filter(({ type }) => type !== 'Ready'), ready],
      })
    }
    const memberships = this.#memberships
    const slots = this.#slots ?? new Map()
    const podsToEnd = this.#podsToEnd
    const draft = { agentPod, agentNamespace, statuses, memberships, slots, podsToEnd, present }
    const content = reportContent(draft)
    // After a start, the slots of the agent before stay until this agent knows them.
    const before = this.#stored?.fields.slots
    return this.#slots === undefined && isRecord(before) ? { ...content, slots: before } : content
  }

  async #read(signal: AbortSignal): Promise<void> {
    this.#store(await this.#reports.get(this.#key, { signal }))
  }

  /** @returns what the server stored; undefined if the custom resource is not installed */
  async #write(
    { content, changes }: { readonly content: ReportContent; readonly changes: object },
    signal: AbortSignal,
  ): Promise<Fields | undefined> {
    const { clock, log } = this.#options
    // After a failure, the server may or may not have stored the write.
    const before = this.#stored
    this.#stored = undefined
    try {
      const stored =
        before?.report === undefined
          ? await this.#create(content, signal)
          : await this.#reports
              .patch(this.#key, 'merge', changes, { signal })
              .catch((error: unknown) => {
                if (!ApiError.is(error, 404)) throw error
                return this.#create(content, signal)
              })
      this.#missingAt = undefined
      return this.#store(stored).fields
    } catch (error) {
      if (!ApiError.is(error, 404)) throw error
      const resource = customResourceName(NODE_REPORTS)
      if (this.#missingAt === undefined)
        log.error(
          { resource, install: APPLY_CUSTOM_RESOURCES, err: error },
          'custom resource not installed',
        )
      this.#missingAt = clock.monotonicMs()
      this.#known.tell()
      return undefined
    }
  }

  async #create(content: ReportContent, signal: AbortSignal): Promise<unknown> {
    const { node: name } = this.#options
    const node = parseObjectMeta(await this.#nodes.get(this.#key, { signal }))
    const owner = node && { apiVersion: 'v1', kind: 'Node', name, uid: node.uid }
    const metadata = { name, ...(owner && { ownerReferences: [owner] }) }
    const object = { apiVersion: API_VERSION, kind: 'NodeReport', metadata, ...content }
    return this.#reports.create('', object, { signal })
  }

  #store(object: unknown): StoredReport {
    const found = isRecord(object) ? object : {}
    const { agentPod, agentNamespace, counts, configurations, memberships, slots, podsToEnd } =
      found
    const fields = {
      agentPod,
      agentNamespace,
      counts,
      configurations,
      memberships,
      slots,
      podsToEnd,
    }
    this.#stored = { fields, report: parseNodeReport(object) }
    this.#readAt = this.#options.clock.monotonicMs()
    this.#known.tell()
    return this.#stored
  }

  get #key(): ObjectKey {
    return objectKey('', this.#options.node)
  }
}

interface StatusOfNode {
  readonly status: NodeStatus
  /** Undefined if this agent does not know them yet. */
  readonly problems: readonly DeviceProblem[] | undefined
}

interface InvalidConfiguration {
  readonly uid: string
  readonly generation: number
  readonly problem: string
}
