import { createHash } from 'node:crypto'
import type { ConfigurationSpec, Instance } from '@akrijs/api'
import { type Logger, readDurableFile, replaceFile } from '@akrijs/runtime'
import * as z from 'zod'
import { StateFileError } from '../errors.js'

export interface KnownConfiguration {
  readonly uid: string
  readonly generation: number
  readonly creationTimestamp: string
  /** The {@link specDigest}: an edit that is made while no agent runs raises the generation too. */
  readonly spec?: string | undefined
}

/** What the standalone cluster remembers over restarts. */
export interface ClusterState {
  /** By key: a Configuration that is still in the files after a restart is the same one. */
  readonly configurations: Readonly<Record<string, KnownConfiguration>>
  readonly instances: readonly Instance[]
  readonly resourceVersion: number
}

const EMPTY_STATE: ClusterState = { configurations: {}, instances: [], resourceVersion: 0 }

const VERSION = 1

const text = z.string()
const texts = z.record(text, text)
const instance = z.looseObject({
  metadata: z.looseObject({ name: text, namespace: text, uid: text }),
  spec: z.looseObject({
    configurationName: text,
    capacity: z.number().int().min(0),
    brokerProperties: texts,
    shared: z.boolean(),
    nodes: z.array(text),
    deviceUsage: texts,
  }),
})
/** The schema checks what the code relies on; what else stands in an object is our own. */
const instances = z.array(
  z.custom<Instance>((value) => instance.safeParse(value).success, 'not an Instance'),
)
const file = z.object({
  version: z.literal(VERSION),
  state: z.object({
    configurations: z.record(
      text,
      z.object({
        uid: text,
        generation: z.number(),
        creationTimestamp: text,
        spec: text.optional(),
      }),
    ),
    instances,
    resourceVersion: z.number(),
  }),
})

/** Tells two specs apart without having them: they may hold passwords. */
export function specDigest(spec: ConfigurationSpec): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('hex')
}

/** The file that holds the {@link ClusterState}. */
export class StateFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** The state as it was written last; the empty one, with a warning, where the file makes no sense. */
  async load(log: Logger): Promise<ClusterState> {
    const content = await readDurableFile(this.#path, (json) => {
      const parsed = file.safeParse(json)
      return parsed.success
        ? { value: parsed.data.state }
        : { wrong: z.prettifyError(parsed.error) }
    }).catch((error: unknown) => {
      throw new StateFileError(`${this.#path} cannot be read: ${String(error)}`, { cause: error })
    })
    if (content.state === 'read') return content.value
    if (content.state === 'unusable') {
      log.warn(
        { file: this.#path, movedTo: content.movedTo, reason: content.reason },
        'state file is unusable, starting without it',
      )
    }
    return EMPTY_STATE
  }

  /** @throws StateFileError, and the file is as it was */
  async save(state: ClusterState): Promise<void> {
    try {
      await replaceFile(this.#path, JSON.stringify({ version: VERSION, state }))
    } catch (error) {
      throw new StateFileError(`${this.#path} cannot be written: ${String(error)}`, {
        cause: error,
      })
    }
  }
}
