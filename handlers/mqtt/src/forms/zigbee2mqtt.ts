import * as z from 'zod'
import { MAX_DEVICE_LIST_BYTES } from '../limits.js'
import { type Form, optionalText, parseAs, parseJson, text, topicName } from './form.js'

const OFFLINE = 'offline'
const devices = z.array(
  z.object({
    ieee_address: text,
    friendly_name: text,
    ...{ type: optionalText, disabled: z.boolean().catch(false) },
    ...{ manufacturer: optionalText, model_id: optionalText, software_build_id: optionalText },
    definition: z
      .object({ vendor: optionalText, model: optionalText, description: optionalText })
      .nullish()
      .catch(undefined),
  }),
)

/** The device list of zigbee2mqtt, one retained message. */
export function zigbee2mqtt(prefix: string): Form {
  const list = `${prefix}/bridge/devices`
  return {
    topics: [list],
    maxPacketBytes: MAX_DEVICE_LIST_BYTES,
    read(topic, payload) {
      if (topic !== list) return undefined
      const paired = payload.length === 0 ? [] : parseAs(devices, parseJson(payload))
      const parts = paired
        .filter(({ type, disabled }) => type !== 'Coordinator' && !disabled)
        .map(({ ieee_address: id, friendly_name: name, type, definition, ...device }) => ({
          ...{ id, isPresent: true, topic: `${prefix}/${name}` },
          properties: {
            ...{ MQTT_NAME: name, MQTT_TYPE: type },
            MQTT_MANUFACTURER: definition?.vendor ?? device.manufacturer,
            MQTT_MODEL: definition?.model ?? device.model_id,
            MQTT_DESCRIPTION: definition?.description,
            MQTT_SOFTWARE_VERSION: device.software_build_id,
          },
          // The last will of the bridge, and what it says of the device.
          availability: [`${prefix}/bridge/state`, `${prefix}/${name}/availability`]
            .filter((each) => topicName.safeParse(each).success)
            .map((each) => ({ topic: each, offline: OFFLINE })),
        }))
      return { key: topic, parts }
    },
  }
}
