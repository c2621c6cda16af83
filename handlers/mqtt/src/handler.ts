import {
  aborted,
  type Clock,
  defineDiscoveryHandler,
  deviceMap,
  messageOf,
  systemClock,
} from '@akrijs/sdk'
import { atLeastEvery } from '@akrijs/sdk/network'
import { AnnouncedDevices } from './announced-devices.js'
import { Broker } from './broker.js'
import { mqttDetails } from './details.js'
import { stateOf } from './forms/form.js'
import { MAX_DEVICES, MAX_PACKET_BYTES, MAX_TEXT } from './limits.js'

/** How often the handler tells what it found, in milliseconds: remarks change without devices. */
const INTERVAL_MS = 10_000

/** For tests. */
export interface MqttHandlerOptions {
  /** @default systemClock */
  readonly clock?: Clock
}

/** A handler that finds devices which announce themselves on an MQTT broker. */
export function createMqttHandler({ clock = systemClock }: MqttHandlerOptions = {}) {
  return defineDiscoveryHandler({
    name: 'mqtt',
    shared: true,
    details: mqttDetails,
    async *discover({ details, properties, signal, log, leaveOut, remark }) {
      const { broker: url, form, ids, firstListSeconds, forgetAfterSeconds } = details
      const { maxPacketBytes = MAX_PACKET_BYTES } = form
      const broker = new Broker({ url, properties, maxPacketBytes })
      void aborted(signal).then(() => broker.close())
      try {
        const devices = deviceMap({
          firstAfter: firstListSeconds * 1000,
          ...(forgetAfterSeconds !== undefined && { forgetAfter: forgetAfterSeconds * 1000 }),
          clock,
        })
        const watch = (topic: string) =>
          void broker
            .subscribe([topic])
            .catch((error: unknown) => log.debug({ topic, err: error }, 'topic not watched'))
        const announced = new AnnouncedDevices({ url, ids, devices, watch })
        let hasHeard = false
        /** Why messages are no announcements, by topic. */
        const unread = new Map<string, string>()
        broker.onMessage((topic, payload) => {
          hasHeard = true
          if (topic.length > MAX_TEXT) return
          unread.delete(topic)
          announced.takeText(topic, stateOf(payload))
          try {
            const announcement = form.read(topic, payload)
            if (announcement !== undefined) announced.take(announcement)
          } catch (error) {
            // What the topic has said before no longer holds.
            announced.take({ key: topic, parts: [] })
            if (unread.size < MAX_DEVICES) unread.set(topic, messageOf(error))
          }
        })
        broker.lost.catch((error: unknown) => devices.end(error))
        await broker.subscribe(form.topics)
        for (const topic of form.optionalTopics ?? []) watch(topic)
        const lists = devices.lists({ signal })
        for await (const list of atLeastEvery(lists, INTERVAL_MS, { signal, clock })) {
          for (const [id, { reason, detail }] of announced.leftOut) leaveOut(id, reason, detail)
          for (const [topic, why] of unread) leaveOut(topic, 'announcement not read', why)
          if (!hasHeard) remark(`no message from ${url} on ${form.topics.join(', ')}`)
          if (announced.isFull) remark('announcements ignored: there were too many')
          if (broker.leftOut > 0)
            remark(`messages ignored, longer than ${maxPacketBytes} bytes: ${broker.leftOut}`)
          yield list
        }
      } finally {
        broker.close()
      }
    },
  })
}
