import { hash } from 'node:crypto'
import { type SlotName, slotNameParts } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import {
  type Clock,
  type Logger,
  messageOf,
  readDurableFile,
  replaceFile,
  runAfter,
} from '@akrijs/runtime'
import { checkInTurns } from '@akrijs/sdk/host'
import * as z from 'zod'
import type { RememberedHandler } from '../handlers/registration-server.js'
import type { AgentObserver } from '../report/observer.js'
import type { SlotAllocation } from '../slots/allocation-ledger.js'
import type { DiscoverySnapshot, KeptList } from './discovery.js'

/** Of the format. A file of another version is moved aside, with a warning. */
const VERSION = 1
/** How long changes are gathered, in milliseconds: a write waits twice for the disk. */
const GATHER_MS = 500
/** The same for device lists, for each kilobyte: a change of one device writes all of them. */
const GATHER_MS_PER_KB = 2
/** Before the next attempt after a failure, in milliseconds: a full disk can have room again. */
const RETRY_MS = 60_000

const list = z.object({ endpoint: z.string(), shared: z.boolean(), devices: z.array(z.unknown()) })
const allocation = z.object({
  slot: z
    .string()
    .refine((name) => slotNameParts(name) !== undefined)
    .transform((name) => name as SlotName),
  resourceName: z.string().min(1),
  // A claim has the id between colons.
  id: z.string().regex(/^[^:]+$/),
  lost: z.literal(true).optional(),
})
const handler = z.object({
  name: z.string(),
  socket: z.string(),
  shared: z.boolean(),
  owner: z.string(),
})
const fileSchema = z.object({
  version: z.literal(VERSION),
  node: z.string(),
  discovery: z.record(z.string(), z.object({ uid: z.string(), lists: z.array(list) })),
  // Earlier versions did not write these.
  given: z.array(allocation).default([]),
  handlers: z.array(handler).default([]),
})

export interface CheckpointContent {
  readonly discovery: DiscoverySnapshot
  readonly given: readonly RememberedAllocation[]
  readonly handlers: readonly RememberedHandler[]
}

const NOTHING: CheckpointContent = { discovery: {}, given: [], handlers: [] }

interface RememberedAllocation extends SlotAllocation {
  /** Whether the device is gone. */
  readonly lost?: true | undefined
}

interface CheckpointOptions {
  readonly file: string
  readonly node: NodeName
  readonly log: Logger
  readonly observer: Pick<AgentObserver, 'failed'>
}

/**
 * The state that survives a restart of the agent: device lists, so that devices are offered before
 * a handler answers; allocations, so that a lost claim of a running container can be restored; and
 * registrations, so that a handler is found that does not register again. It has no Secrets, and no
 * claims: Instances are the truth about claims.
 */
export class Checkpoint {
  readonly #options: CheckpointOptions
  /** The digest of the last content. */
  #last: string | undefined
  /** How long changes of device lists are gathered, in milliseconds. */
  #listsMs = 0
  #writing: Promise<unknown> = Promise.resolve()
  /** When the next write is due; Infinity if none is. */
  #dueAt = Number.POSITIVE_INFINITY

  constructor(options: CheckpointOptions) {
    this.#options = options
  }

  /** @returns nothing, with a line of the log, if the file is unusable or from another node */
  async load(): Promise<CheckpointContent> {
    const { file, node, log } = this.#options
    try {
      const content = await readDurableFile(file, (json) => {
        const { data, error } = fileSchema.safeParse(json)
        return data === undefined ? { wrong: messageOf(error) } : { value: data }
      })
      if (content.state === 'unusable') {
        const { movedTo, reason } = content
        log.warn({ file, movedTo, reason }, 'unusable checkpoint ignored')
      }
      if (content.state !== 'read') return NOTHING
      const { node: of, discovery, given, handlers } = content.value
      if (of === node) return { discovery: await this.#checked(discovery), given, handlers }
      log.info({ file, node, of }, 'checkpoint of another node ignored')
    } catch (error) {
      // The next write shows whether the file system is in order.
      log.warn({ file, err: error }, 'checkpoint not read')
    }
    return NOTHING
  }

  /** Leaves out a list that breaks the rules: the agent that wrote the list may have had others. */
  async #checked(written: z.infer<typeof fileSchema>['discovery']): Promise<DiscoverySnapshot> {
    const { file, log } = this.#options
    const checked: Record<ObjectKey, DiscoverySnapshot[ObjectKey]> = {}
    for (const [configuration, { uid, lists }] of Object.entries(written)) {
      const kept: KeptList[] = []
      for (const { endpoint, shared, devices } of lists)
        await checkInTurns(devices).then(
          (devices) => kept.push({ endpoint, shared, devices }),
          (err: unknown) => {
            const place = { file, configuration, endpoint }
            log.warn({ ...place, err }, 'device list of the checkpoint ignored')
          },
        )
      checked[configuration as ObjectKey] = { uid, lists: kept }
    }
    return checked
  }

  /** Saves together with the changes of the next moment. @param wait in milliseconds */
  saveSoon(
    content: () => CheckpointContent,
    changed: keyof CheckpointContent,
    options: { readonly clock: Clock; readonly signal: AbortSignal },
    wait = changed === 'given' ? GATHER_MS : Math.max(GATHER_MS, this.#listsMs),
  ): void {
    const { clock, signal } = options
    const at = clock.monotonicMs() + wait
    if (this.#dueAt <= at) return
    this.#dueAt = at
    runAfter(clock, wait, signal, () => {
      if (this.#dueAt !== at) return
      this.#dueAt = Number.POSITIVE_INFINITY
      void this.save(content).then((isSaved) => {
        if (!isSaved) this.saveSoon(content, changed, options, RETRY_MS)
      })
    })
  }

  /** Never rejects: a full disk costs only the warm start. @returns whether the file is written */
  save(content: () => CheckpointContent): Promise<boolean> {
    const saved = this.#writing.then(() => this.#write(content))
    this.#writing = saved
    return saved
  }

  async #write(content: () => CheckpointContent): Promise<boolean> {
    const { file, node, log, observer } = this.#options
    try {
      // 10,000 devices take 10 to 50 ms.
      const text = JSON.stringify({ version: VERSION, node, ...content() })
      const digest = hash('sha256', text, 'base64')
      if (digest === this.#last) return true
      await replaceFile(file, [text])
      this.#last = digest
      this.#listsMs = (text.length / 1000) * GATHER_MS_PER_KB
      return true
    } catch (error) {
      log.warn({ file, err: error }, 'checkpoint not written')
      observer.failed('StateNotWritten', error)
      return false
    }
  }
}
