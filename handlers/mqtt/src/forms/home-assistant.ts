import * as z from 'zod'
import { type Form, optionalText, parseAs, parseJson, text, topicName } from './form.js'

/** The short names of fields, from the page of Home Assistant on MQTT discovery. */
const SHORT: Readonly<Record<string, string>> = {
  ...{ dev: 'device', ids: 'identifiers', cns: 'connections', mf: 'manufacturer', mdl: 'model' },
  ...{ sn: 'serial_number', sw: 'sw_version', hw: 'hw_version', uniq_id: 'unique_id' },
  ...{ avty: 'availability', avty_t: 'availability_topic', t: 'topic' },
  pl_not_avail: 'payload_not_available',
}

const OFFLINE = 'offline'
/** zigbee2mqtt has three at most. */
const MAX_AVAILABILITIES = 4
const device = z.preprocess(
  withLongNames,
  z.object({
    identifiers: z.union([text.transform((id) => [id]), z.array(text)]).catch([]),
    connections: z.array(z.tuple([text, text])).catch([]),
    ...{ name: optionalText, manufacturer: optionalText, model: optionalText },
    ...{ serial_number: optionalText, sw_version: optionalText, hw_version: optionalText },
  }),
)
const configuration = z.preprocess(
  withLongNames,
  z.object({
    ...{ name: optionalText, unique_id: optionalText, '~': optionalText },
    device: device.optional(),
    availability_topic: optionalText,
    payload_not_available: text.catch(OFFLINE),
    availability: z
      .array(
        z.preprocess(
          withLongNames,
          z.object({ topic: text, payload_not_available: text.catch(OFFLINE) }),
        ),
      )
      .transform((all) => all.slice(0, MAX_AVAILABILITIES))
      .catch([]),
  }),
)

/**
 * MQTT discovery of Home Assistant: each entity has a retained configuration, which names its
 * device. An entity without a device is a device.
 */
export function homeAssistant(prefix: string): Form {
  return {
    topics: [`${prefix}/+/+/config`, `${prefix}/+/+/+/config`],
    read(topic, payload) {
      if (!topic.startsWith(`${prefix}/`) || !topic.endsWith('/config')) return undefined
      if (payload.length === 0) return { key: topic, parts: [] }
      const config = parseAs(configuration, parseJson(payload))
      const { device: owner, unique_id: uniqueId, '~': base = '', availability } = config
      const entity = topic.slice(prefix.length + 1, -'/config'.length)
      const [connection] = owner?.connections ?? []
      const id = owner?.identifiers[0] ?? connection?.[1] ?? uniqueId ?? entity
      const { availability_topic: single, payload_not_available: offline } = config
      const all = [
        ...availability.map((one) => ({ topic: one.topic, offline: one.payload_not_available })),
        ...(single === undefined ? [] : [{ topic: single, offline }]),
      ]
      const properties = {
        MQTT_NAME: owner === undefined ? config.name : owner.name,
        MQTT_MANUFACTURER: owner?.manufacturer,
        MQTT_MODEL: owner?.model,
        MQTT_SERIAL_NUMBER: owner?.serial_number,
        MQTT_SOFTWARE_VERSION: owner?.sw_version,
        MQTT_HARDWARE_VERSION: owner?.hw_version,
      }
      const watched = all
        .map((one) => ({ ...one, topic: one.topic.replace(/^~|~$/, () => base) }))
        .filter((one) => topicName.safeParse(one.topic).success)
      return {
        key: topic,
        parts: [{ id, isPresent: true, topic, properties, availability: watched }],
      }
    },
  }
}

function withLongNames(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [
      Object.hasOwn(SHORT, name) ? SHORT[name] : name,
      field,
    ]),
  )
}
