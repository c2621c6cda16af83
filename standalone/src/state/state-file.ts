import { createHash } from 'node:crypto'
import type { ConfigurationSpec, Instance } from '@akrijs/api'
import { type Logger, messageOf, readDurableFile, replaceFile } from '@akrijs/runtime'
import * as z from 'zod'
import { StateFileError } from '../errors.js'

/** Of the format. A file of another version is moved aside, with a warning. */
const VERSION = 1

const text = z.string()
const texts = z.record(text, text)
/** The fields that the code relies on: only an agent writes the file. */
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
const clusterState = z.object({
  /** By key. A Configuration keeps its uid if the files still name it after a restart. */
  configurations: z.record(
    text,
    z.object({
      uid: text,
      generation: z.number(),
      creationTimestamp: text,
      /** The {@link specDigest}: an edit without a running agent raises the generation too. */
      spec: text,
    }),
  ),
  instances: z
    .array(z.custom<Instance>((value) => instance.safeParse(value).success, 'not an Instance'))
    .readonly(),
  resourceVersion: z.number(),
})
const file = z.object({ version: z.literal(VERSION), state: clusterState })

/** The part of the standalone cluster that survives a restart. */
export type ClusterState = Readonly<z.infer<typeof clusterState>>

const EMPTY_STATE: ClusterState = { configurations: {}, instances: [], resourceVersion: 0 }

/** Compares specs without storing them: a spec can contain passwords. */
export function specDigest(spec: ConfigurationSpec): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('hex')
}

/** The file that holds the {@link ClusterState}. */
export class StateFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** The last state that was written; an empty state, with a warning, if the file is invalid. */
  async load(log: Logger): Promise<ClusterState> {
    const content = await readDurableFile(this.#path, (json) => {
      const parsed = file.safeParse(json)
      return parsed.success ? { value: parsed.data.state } : { wrong: messageOf(parsed.error) }
    }).catch((error: unknown) => {
      throw new StateFileError(`${this.#path} cannot be read: ${String(error)}`, { cause: error })
    })
    if (content.state === 'read') return content.value
    if (content.state === 'unusable') {
      log.warn(
        { file: this.#path, movedTo: content.movedTo, reason: content.reason },
        'state file invalid, state discarded',
      )
    }
    return EMPTY_STATE
  }

  /** @throws StateFileError; the file stays unchanged then */
  async save(state: ClusterState): Promise<void> {
    try {
      await replaceFile(this.#path, [JSON.stringify({ version: VERSION, state })])
    } catch (error) {
      const message = `${this.#path} cannot be written: ${String(error)}`
      throw new StateFileError(message, { cause: error })
    }
  }
}
