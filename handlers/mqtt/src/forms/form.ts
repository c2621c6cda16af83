import * as z from 'zod'
import type { Announcement } from '../announced-devices.js'
import { MqttMessageError } from '../errors.js'
import { MAX_TEXT } from '../limits.js'

/** A way in which devices announce themselves. */
export interface Form {
  /** What the handler subscribes to. */
  readonly topics: readonly string[]
  /** The same, where a broker may refuse it. @default none */
  readonly optionalTopics?: readonly string[]
  /** Longer packets are left out. @default MAX_PACKET_BYTES */
  readonly maxPacketBytes?: number
  /**
   * Undefined if the message says nothing of devices.
   * @throws MqttMessageError
   */
  read(topic: string, payload: Buffer): Announcement | undefined
}

/** The name of a topic, without wildcards. A topic with $ belongs to the broker. */
export const topicName = z
  .string()
  .regex(/^[^\p{C}$+#][^\p{C}+#]{0,255}$/u, 'write a topic without wildcards, such as home/hall')

/** A topic in which a level can be `+`, but not the first one. */
export const topicWithWildcards = z
  .string()
  .max(256)
  .regex(
    /^[^\p{C}$+#/][^\p{C}+#/]*(\/(\+|[^\p{C}+#/]*))*$/u,
    'write a topic whose first level has no wildcard, such as sensors/+/info; # is not allowed',
  )

/** A text that can be an id, or a value in the environment of containers. */
export const text = z
  .union([z.string(), z.number(), z.boolean()])
  .transform(String)
  .pipe(
    z
      .string()
      .min(1)
      .max(MAX_TEXT)
      .regex(/^[^\p{C}]*$/u),
  )

/** The same, where another value counts as absent. */
export const optionalText = text.optional().catch(undefined)

/** @throws MqttMessageError */
export function parseJson(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'))
  } catch (error) {
    throw new MqttMessageError('it is not JSON', { cause: error })
  }
}

/** @throws MqttMessageError */
export function parseAs<T>(schema: z.ZodType<T>, value: unknown): T {
  const { data, error } = schema.safeParse(value)
  if (error === undefined) return data as T
  const [issue] = error.issues
  throw new MqttMessageError(`${issue?.path.join('.') || 'it'}: ${issue?.message}`)
}

/** The text of a state: `offline`, or `{"state":"offline"}`. */
export function stateOf(payload: Buffer): string {
  const plain = payload.subarray(0, MAX_TEXT).toString('utf8').trim()
  return /"state"\s*:\s*"([^"]*)"/.exec(plain)?.[1] ?? plain
}
