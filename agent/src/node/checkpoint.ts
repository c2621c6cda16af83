import { createHash } from 'node:crypto'
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
})
const allocation = z.object({
  slot: z
    .string()
    .regex(/^.+-[0-9a-f]{6}-(0|[1-9][0-9]{0,8})$/)
    .transform((name) => name as SlotName),
  resourceName: z.string().min(1),
  // A claim has the id between colons.
  id: z.string().regex(/^[^:]+$/),
})
const file = z.object({
  version: z.literal(VERSION),
  node: z.string(),
  discovery: z.record(z.string(), z.object({ uid: z.string(), lists: z.array(list) })),
  // Earlier versions did not write this.
  given: z.array(allocation).default([]),
})

export interface CheckpointContent {
  readonly discovery: DiscoverySnapshot
  readonly given: readonly SlotAllocation[]
}

/**
 * The state that survives a restart of the agent: device lists, so that devices are offered before
 * a handler answers, and allocations, so that a lost claim of a running container can be restored.
 * It has no Secrets, and no claims: Instances are the truth about claims. Its size follows the
 * devices that the node serves and its allocations.
 */
export class Checkpoint {
  readonly #path: string
  readonly #node: NodeName
  readonly #log: Logger
  /** The digest of the last content: the content can have megabytes. */
  #last: string | undefined
  #writing: Promise<void> = Promise.resolve()
  /** The write that has not started. */
  #next: Promise<void> | undefined

  constructor(path: string, node: NodeName, log: Logger) {
    this.#path = path
    this.#node = node
    this.#log = log
  }

  /**
   * @returns the last saved content; nothing if the file is unusable or is from another node, which
   * is logged
   */
  async load(): Promise<CheckpointContent> {
    const content = await readDurableFile(this.#path, (json) => {
      const parsed = file.safeParse(json)
      return parsed.success ? { value: parsed.data } : { wrong: z.prettifyError(parsed.error) }
    })
    if (content.state === 'read') {
      const { node: of, discovery, given } = content.value
      if (of === this.#node) return { discovery: discovery as DiscoverySnapshot, given }
      this.#log.info(
        { file: this.#path, node: this.#node, of },
        'checkpoint of another node ignored',
      )
    }
    if (content.state === 'unusable') {
      this.#log.warn(
        { file: this.#path, movedTo: content.movedTo, reason: content.reason },
        'unusable checkpoint ignored',
      )
    }
    return { discovery: {}, given: [] }
  }

  /**
   * Writes the content if it has changed; calls before the write starts share it. Resolves after
   * the write. A full disk costs only the warm start.
   */
  save(content: () => CheckpointContent): Promise<void> {
    this.#next ??= this.#writing.then(async () => {
      this.#next = undefined
      const text = JSON.stringify({ version: VERSION, node: this.#node, ...content() })
      const digest = createHash('sha256').update(text).digest('base64')
      if (digest === this.#last) return
      try {
        await replaceFile(this.#path, text)
        this.#last = digest
      } catch (error) {
        this.#log.warn({ file: this.#path, err: error }, 'checkpoint not written')
      }
    })
    this.#writing = this.#next
    return this.#next
  }
}
