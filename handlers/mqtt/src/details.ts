import * as z from 'zod'
import { filterList } from '../../details-fields.js'
import { JSON_PATH } from './forms/topic-pattern.js'
import { topicName, topicPattern } from './topic.js'

const path = z.string().regex(JSON_PATH, 'write a JSON path, such as $.device.serial')
const seconds = z.number().int().min(1)
const FORMS = ['homie', 'homeAssistant', 'sparkplug', 'zigbee2mqtt', 'topicPattern'] as const

/** `discoveryDetails` of the MQTT handler. */
export const mqttDetails = z
  .strictObject({
    broker: z
      .string()
      .refine(isBrokerUrl, 'write a URL such as mqtt://host:1883 or mqtts://host:8883, no password')
      .describe('The URL of the broker: mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS.'),
    homie: z
      .strictObject({ prefix: topicName.default('homie') })
      .optional()
      .describe('Devices of the Homie convention, versions 3 to 5.'),
    homeAssistant: z
      .strictObject({ prefix: topicName.default('homeassistant') })
      .optional()
      .describe('Devices of MQTT discovery of Home Assistant.'),
    sparkplug: z
      .strictObject({
        groups: z
          .array(topicName.regex(/^[^/]+$/, 'write the id of a group'))
          .max(32)
          .default([]),
        offer: z
          .array(z.enum(['device', 'edgeNode']))
          .min(1)
          .max(2)
          .default(['device', 'edgeNode']),
      })
      .optional()
      .describe('Edge nodes and devices of Sparkplug B.'),
    zigbee2mqtt: z
      .strictObject({ prefix: topicName.default('zigbee2mqtt') })
      .optional()
      .describe('The devices of zigbee2mqtt.'),
    topicPattern: z
      .strictObject({
        topic: topicPattern,
        id: path.optional(),
        properties: z
          .record(
            z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/, 'write a name such as SERIAL_NUMBER'),
            path,
          )
          .default({}),
        availability: topicPattern.optional(),
        offline: z.string().min(1).max(256).default('offline'),
      })
      .refine(hasSamePlaces, 'availability has more + than topic')
      .optional()
      .describe('Topics that follow a pattern, with the id of the device in the topic or in JSON.'),
    ids: filterList().describe('A filter by the id of the device.'),
    firstListSeconds: seconds
      .max(3600)
      .default(3)
      .describe('How long announcements are gathered before the first list.'),
    forgetAfterSeconds: seconds
      .max(30 * 86_400)
      .optional()
      .describe('After so long, a device without a message is gone. Default: never.'),
  })
  .refine(
    (details) => FORMS.filter((form) => details[form] !== undefined).length === 1,
    `name one of ${FORMS.join(', ')}`,
  )

export type MqttDetails = z.infer<typeof mqttDetails>

function isBrokerUrl(text: string): boolean {
  if (!/^mqtts?:\/\/[^\s/@?#]+\/?$/.test(text) || !URL.canParse(text)) return false
  return new URL(text).hostname !== ''
}

function hasSamePlaces({
  topic,
  availability = '',
}: {
  readonly topic: string
  readonly availability?: string | undefined
}): boolean {
  return availability.split('+').length <= topic.split('+').length
}
