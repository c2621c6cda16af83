import type { NodeName } from '@akrijs/kube'
import { type Logger, messageOf } from '@akrijs/sdk'
import { checkDeviceList } from '@akrijs/sdk/host'
import { z } from 'zod'
import type { DiscoverySnapshot } from './discovery/discovery.js'
import { readDurableFile, replaceFile } from './durable-file.js'

const VERSION = 1

const list = z.object({
  endpoint: z.string(),
  shared: z.boolean(),
  devices: z.array(z.unknown()).transform(checkDeviceList),
  lostSince: z.number().optional(),
})
const file = z.object({
  version: z.literal(VERSION),
  node: z.string(),
  discovery: z.record(z.string(), z.object({ uid: z.string(), lists: z.array(list) })),
})

/**
 * What the agent knew of devices, so that after a restart it offers them before any handler has answered. It holds device
 * lists only: no Secret, and no claims, whose truth is the Instance.
 */
export class Checkpoint {
  readonly #path: string
  readonly #node: NodeName
  readonly #log: Logger
  #last: string | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(path: string, node: NodeName, log: Logger) {
    this.#path = path
    this.#node = node
    this.#log = log
  }

  /** What was saved last; nothing, with a warning, where the file makes no sense or is of another node. */
  async load(): Promise<DiscoverySnapshot> {
    const content = await readDurableFile(this.#path, (json) => {
      const parsed = file.safeParse(json)
      if (!parsed.success) return { wrong: z.prettifyError(parsed.error) }
      if (parsed.data.node !== this.#node) return { wrong: `it is of node ${parsed.data.node}` }
      const discovery = Object.entries(parsed.data.discovery).map(([key, { uid, lists }]) => [
        key,
        { uid, lists: lists.map(({ lostSince, ...rest }) => ({ ...rest, lostSince })) },
      ])
      return { value: Object.fromEntries(discovery) as DiscoverySnapshot }
    })
    if (content.state === 'read') return content.value
    if (content.state === 'unusable') {
      this.#log.warn(
        { file: this.#path, movedTo: content.movedTo, reason: content.reason },
        'checkpoint is unusable, starting without it',
      )
    }
    return {}
  }

  /** Writes the snapshot if it says something new. A disk that is full costs a warm start, nothing more. */
  save(snapshot: DiscoverySnapshot): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      const text = JSON.stringify({ version: VERSION, node: this.#node, discovery: snapshot })
      if (text === this.#last) return
      try {
        await replaceFile(this.#path, text)
        this.#last = text
      } catch (error) {
        this.#log.warn({ file: this.#path, error: messageOf(error) }, 'cannot write the checkpoint')
      }
    })
    return this.#writing
  }
}
