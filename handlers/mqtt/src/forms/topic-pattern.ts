import * as z from 'zod'
import { MqttMessageError } from '../errors.js'
import { type Form, optionalText, parseAs, parseJson, text, topicWithWildcards } from './form.js'

/** A path of names and numbers, such as `$.device.ids[0]` (RFC 9535, without wildcards). */
const JSON_PATH = /^\$(\.[A-Za-z_][\w-]*|\[\d{1,5}\]|\['[^'\\]+'\])*$/
const jsonPath = z.string().regex(JSON_PATH, 'write a JSON path, such as $.device.serial')

export const topicPatternFields = z
  .strictObject({
    topic: topicWithWildcards,
    /** Without it, the levels of the topic that match + are the id. */
    id: jsonPath.optional(),
    properties: z
      .record(
        z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/, 'write a name such as SERIAL_NUMBER'),
        jsonPath,
      )
      .default({}),
    /** Its + stand for those of `topic`. */
    availability: topicWithWildcards.optional(),
    offline: z.string().min(1).max(256).default('offline'),
  })
  .refine(
    ({ topic, availability = '' }) => availability.split('+').length <= topic.split('+').length,
    'availability has more + than topic',
  )

/** Topics that follow a pattern, each of one device. */
export function topicPattern(pattern: z.output<typeof topicPatternFields>): Form {
  const levels = pattern.topic.split('/').map((level) => (level === '+' ? '([^/]+)' : quote(level)))
  const matches = new RegExp(`^${levels.join('/')}$`, 'u')
  const properties = Object.entries(pattern.properties)
  return {
    topics: [pattern.topic],
    read(topic, payload) {
      const [all, ...wildcards] = matches.exec(topic) ?? []
      if (all === undefined || !text.safeParse(topic).success) return undefined
      // A last will, or a retained message that was removed.
      if (payload.length === 0 || payload.equals(Buffer.from(pattern.offline)))
        return { key: topic, parts: [] }
      const isJson = pattern.id !== undefined || properties.length > 0
      const json = isJson ? parseJson(payload) : undefined
      const id =
        pattern.id === undefined
          ? wildcards.join('/') || topic
          : idOf(pattern.id, valueAt(json, pattern.id))
      const values = properties.map(([name, path]) => [
        `MQTT_VALUE_${name}`,
        optionalText.parse(valueAt(json, path)),
      ])
      const rest = [...wildcards]
      const availability = pattern.availability?.replace(/\+/g, () => rest.shift() ?? '+')
      return {
        key: topic,
        parts: [
          {
            ...{ id, isPresent: true, topic, properties: Object.fromEntries(values) },
            ...(availability !== undefined && {
              availability: [{ topic: availability, offline: pattern.offline }],
            }),
          },
        ],
      }
    },
  }
}

function valueAt(json: unknown, path: string): unknown {
  let value = json
  for (const [, name, index, quoted] of path.matchAll(/\.([\w-]+)|\[(\d+)\]|\['([^']+)'\]/g)) {
    const member = name ?? index ?? quoted ?? ''
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, member))
      return undefined
    value = Reflect.get(value, member)
  }
  return value
}

function idOf(path: string, value: unknown): string {
  if (value === undefined) throw new MqttMessageError(`it has no ${path}`)
  return parseAs(text, value)
}

function quote(level: string): string {
  return level.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
