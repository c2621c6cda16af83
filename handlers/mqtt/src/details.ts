import * as z from 'zod'
import { filterList } from '../../details-fields.js'
import { topicName } from './forms/form.js'
import { homeAssistant } from './forms/home-assistant.js'
import { homie } from './forms/homie.js'
import { sparkplug } from './forms/sparkplug.js'
import { topicPattern, topicPatternFields } from './forms/topic-pattern.js'
import { zigbee2mqtt } from './forms/zigbee2mqtt.js'

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
      .transform(({ prefix }) => homie(prefix))
      .optional()
      .describe('Devices of the Homie convention, versions 3 to 5.'),
    homeAssistant: z
      .strictObject({ prefix: topicName.default('homeassistant') })
      .transform(({ prefix }) => homeAssistant(prefix))
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
      .transform(({ groups, offer }) => sparkplug(groups, offer))
      .optional()
      .describe('Edge nodes and devices of Sparkplug B.'),
    zigbee2mqtt: z
      .strictObject({ prefix: topicName.default('zigbee2mqtt') })
      .transform(({ prefix }) => zigbee2mqtt(prefix))
      .optional()
      .describe('The devices of zigbee2mqtt.'),
    topicPattern: topicPatternFields
      .transform(topicPattern)
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
  .transform((details, context) => {
    const [form, ...others] = FORMS.flatMap((name) => details[name] ?? [])
    if (form !== undefined && others.length === 0) return { ...details, form }
    context.addIssue({ code: 'custom', message: `name one of ${FORMS.join(', ')}` })
    return z.NEVER
  })

function isBrokerUrl(text: string): boolean {
  if (!/^mqtts?:\/\/[^\s/@?#]+\/?$/.test(text) || !URL.canParse(text)) return false
  return new URL(text).hostname !== ''
}
