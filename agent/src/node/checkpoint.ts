import type { SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { type Logger, readDurableFile, replaceFile } from '@akrijs/runtime'
import { checkDeviceList } from '@akrijs/sdk/host'
import * as z from 'zod'
import type { DiscoverySnapshot } from '../core/discovery/discovery.js'
import type { SlotAllocation } from '../core/slots/allocation-ledger.js'

const VERSION = 1

const list = z.object({
  endpoint: z.string(),
  shared: z.boolean(),
  devices: z.array(z.unknown()).transform(checkDeviceList),
  lostSince: z.number().optional(),
})
const given = z.object({
  slot: z
    .string()
    .regex(/^.+-[0-9a-f]{6}-(0|[1-9][0-9]{0,8})$/)
    .transform((name) => name as SlotName),
  resourceName: z.string().min(1),
  // As it stands between the colons of a claim.
  id: z.string().regex(/^[^:]+$/),
})
const file = z.object({
  version: z.literal(VERSION),
  node: z.string(),
  discovery: z.record(z.string(), z.object({ uid: z.string(), lists: z.array(list) })),
  // Files of earlier versions have none.
  given: z.array(given).default([]),
})

export interface CheckpointContent {
  readonly discovery: DiscoverySnapshot
  readonly given: readonly SlotAllocation[]
}

/**
 * What the agent knew, so that after a restart it offers devices before any handler has answered, and knows which slot each id
 * of a running container stands for, should the Instance not say so any more. It holds no Secret, and no claims, whose truth is
 * the Instance. It is as large as what handlers list and what the containers of this node have.
 */
export class Checkpoint {
  readonly #path: string
  readonly #node: NodeName
  readonly #log: Logger
  #last: string | undefined
  #writing: Promise<void> = Promise.resolve()
  /** The write that has not begun. */
  #next: Promise<void> | undefined

  constructor(path: string, node: NodeName, log: Logger) {
    this.#path = path
    this.#node = node
    this.#log = log
  }

  /** What was saved last; nothing, with a warning, where the file makes no sense, and nothing where it is of another node. */
  async load(): Promise<CheckpointContent> {
    const content = await readDurableFile(this.#path, (json) => {
      const parsed = file.safeParse(json)
      if (!parsed.success) return { wrong: z.prettifyError(parsed.error) }
      const discovery = Object.entries(parsed.data.discovery).map(([key, { uid, lists }]) => [
        key,
        { uid, lists: lists.map(({ lostSince, ...rest }) => ({ ...rest, lostSince })) },
      ])
      const value = {
        discovery: Object.fromEntries(discovery) as DiscoverySnapshot,
        given: parsed.data.given,
      }
      return { value: { of: parsed.data.node, value } }
    })
    if (content.state === 'read') {
      const { of, value } = content.value
      if (of === this.#node) return value
      this.#log.info(
        { file: this.#path, node: this.#node, of },
        'checkpoint is of another node, starting without it',
      )
    }
    if (content.state === 'unusable') {
      this.#log.warn(
        { file: this.#path, movedTo: content.movedTo, reason: content.reason },
        'checkpoint is unusable, starting without it',
      )
    }
    return { discovery: {}, given: [] }
  }

  /**
   * Writes what `content` gives once its turn has come, if it says something new. Resolves when that is written; those who ask
   * before it has begun share one write. A disk that is full costs a warm start, nothing more.
   */
  save(content: () => CheckpointContent): Promise<void> {
    this.#next ??= this.#writing.then(async () => {
      this.#next = undefined
      const text = JSON.stringify({ version: VERSION, node: this.#node, ...content() })
      if (text === this.#last) return
      try {
        await replaceFile(this.#path, text)
        this.#last = text
      } catch (error) {
        this.#log.warn({ file: this.#path, err: error }, 'cannot write the checkpoint')
      }
    })
    this.#writing = this.#next
    return this.#next
  }
}
