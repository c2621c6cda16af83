import * as z from 'zod'
import { type Form, optionalText, parseAs, parseJson } from './form.js'

const PRESENT = ['ready', 'sleeping', 'alert']
const ABSENT = ['disconnected', 'lost']

/** `$description` of Homie 5. */
const description = z.object({ name: optionalText, type: optionalText })

/** The Homie convention, versions 3 to 5: each attribute of a device has a retained topic. */
export function homie(prefix: string): Form {
  const topics = [
    ...[`${prefix}/+/$state`, `${prefix}/+/$name`],
    ...[`${prefix}/5/+/$state`, `${prefix}/5/+/$description`],
  ]
  return {
    topics,
    read(topic, payload) {
      const levels = topic.slice(prefix.length + 1).split('/')
      const [attribute, id = ''] = levels.toReversed()
      if (!topic.startsWith(`${prefix}/`) || !/^[a-z0-9-]{1,128}$/.test(id)) return undefined
      const part = {
        ...{ id, isPresent: false, topic: topic.slice(0, topic.lastIndexOf('/')), properties: {} },
      }
      const text = payload.toString('utf8')
      if (payload.length === 0) return { key: topic, parts: [] }
      if (attribute === '$name')
        return {
          key: topic,
          parts: [{ ...part, properties: { MQTT_NAME: optionalText.parse(text) } }],
        }
      if (attribute === '$description') {
        const { name, type } = parseAs(description, parseJson(payload))
        const properties = { MQTT_NAME: name, MQTT_TYPE: type }
        return { key: topic, parts: [{ ...part, properties }] }
      }
      if (PRESENT.includes(text)) return { key: topic, parts: [{ ...part, isPresent: true }] }
      if (!ABSENT.includes(text)) return undefined
      const absent = { reason: 'offline', detail: `${topic} is ${text}` }
      return { key: topic, parts: [{ ...part, absent }] }
    },
  }
}
