import { deviceMap } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AnnouncedDevices } from '../announced-devices.js'
import { MAX_DEVICES, MAX_PARTS, MAX_PARTS_OF_DEVICE } from '../limits.js'
import { type Form, stateOf } from './form.js'
import { homeAssistant } from './home-assistant.js'
import { homie } from './homie.js'
import { sparkplug } from './sparkplug.js'
import { topicPattern } from './topic-pattern.js'
import { zigbee2mqtt } from './zigbee2mqtt.js'

/** What becomes of messages. */
function listenTo(form: Form, ids?: { readonly items: readonly string[] }) {
  const devices = deviceMap({ clock: new ManualClock() })
  const watched: string[] = []
  const announced = new AnnouncedDevices({
    ...{ url: 'mqtt://broker', devices, ids: ids && { ...ids, action: 'Include' } },
    watch: (topic) => watched.push(topic),
  })
  return {
    watched,
    announced,
    hear(topic: string, payload: unknown) {
      const bytes =
        typeof payload === 'string' || payload instanceof Uint8Array
          ? Buffer.from(payload)
          : Buffer.from(JSON.stringify(payload))
      announced.takeText(topic, stateOf(bytes))
      const announcement = form.read(topic, bytes)
      if (announcement !== undefined) announced.take(announcement)
    },
    properties: (id: string) => devices.get(id)?.properties,
    leftOut: (id: string) => announced.leftOut.get(id),
    size: () => devices.size,
  }
}

describe('Homie', () => {
  it.each([
    ['4', 'homie/hall', ['$name', 'Hall'], { MQTT_NAME: 'Hall' }],
    [
      '5',
      'homie/5/hall',
      ['$description', { homie: '5.0', version: 1, name: 'Hall', type: 'sensor', nodes: {} }],
      { MQTT_NAME: 'Hall', MQTT_TYPE: 'sensor' },
    ],
  ] as const)('%s: offers a device that is ready, until its last will', (_, topic, about, more) => {
    const { hear, properties, leftOut } = listenTo(homie('homie'))
    hear(`${topic}/${about[0]}`, about[1])
    hear(`${topic}/$state`, 'init')
    expect(properties('hall')).toBeUndefined()
    hear(`${topic}/$state`, 'ready')
    const ready = { MQTT_BROKER: 'mqtt://broker', MQTT_TOPIC: topic, ...more }
    expect(properties('hall')).toEqual(ready)
    for (const state of ['init', 'sleeping', 'alert']) {
      hear(`${topic}/$state`, state)
      expect(properties('hall')).toEqual(ready)
    }
    hear(`${topic}/$state`, 'lost')
    expect(properties('hall')).toBeUndefined()
    expect(leftOut('hall')).toEqual({ reason: 'offline', detail: `${topic}/$state is lost` })
    hear(`${topic}/$state`, 'ready')
    expect(leftOut('hall')).toBeUndefined()
    hear(`${topic}/$state`, 'disconnected')
    expect(leftOut('hall')).toMatchObject({ reason: 'offline' })
    hear(`${topic}/$state`, 'ready')
    hear(`${topic}/$state`, '')
    expect([properties('hall'), leftOut('hall')]).toEqual([undefined, undefined])
  })

  it('takes no device whose id breaks the convention', () => {
    const { hear, size } = listenTo(homie('homie'))
    for (const id of ['Hall', 'a b', 'a\u0007', '', 'x'.repeat(200)])
      hear(`homie/${id}/$state`, 'ready')
    expect(size()).toBe(0)
  })
})

describe('Home Assistant', () => {
  const device = { ids: ['esp-1'], name: 'Hall', mf: 'Espressif', mdl: 'C3', sw: '1.2' }
  const entity = (more: object = {}) => ({ name: 'T', uniq_id: 'esp-1-t', dev: device, ...more })

  it('offers the device of its entities, with their topics', () => {
    const { hear, properties } = listenTo(homeAssistant('homeassistant'))
    hear('homeassistant/sensor/esp-1/t/config', entity())
    hear('homeassistant/sensor/esp-1/h/config', entity({ dev: { ids: ['esp-1'], sn: 77 } }))
    expect(properties('esp-1')).toEqual({
      MQTT_BROKER: 'mqtt://broker',
      MQTT_TOPIC: 'homeassistant/sensor/esp-1/h/config',
      MQTT_TOPICS: 'homeassistant/sensor/esp-1/h/config homeassistant/sensor/esp-1/t/config',
      ...{ MQTT_NAME: 'Hall', MQTT_MANUFACTURER: 'Espressif', MQTT_MODEL: 'C3' },
      ...{ MQTT_SOFTWARE_VERSION: '1.2', MQTT_SERIAL_NUMBER: '77' },
    })
    hear('homeassistant/sensor/esp-1/h/config', '')
    expect(properties('esp-1')?.MQTT_TOPICS).toBeUndefined()
    hear('homeassistant/sensor/esp-1/t/config', '')
    expect(properties('esp-1')).toBeUndefined()
  })

  it('comes to the same device in any order of messages', () => {
    const messages = [
      ['homeassistant/sensor/a/config', entity({ dev: { ...device, name: 'A' } })],
      ['homeassistant/sensor/b/config', entity({ dev: { ...device, name: 'B' } })],
    ] as const
    const [one, other] = [messages, messages.toReversed()].map((each) => {
      const { hear, properties } = listenTo(homeAssistant('homeassistant'))
      for (const [topic, payload] of each) hear(topic, payload)
      return properties('esp-1')
    })
    expect(one).toEqual(other)
    expect(one?.MQTT_NAME).toBe('A')
  })

  it.each([
    ['no identifiers', { device: { connections: [['mac', '00:11']] } }, '00:11'],
    ['one identifier', { device: { identifiers: 'x' } }, 'x'],
    ['no device', { device: undefined, unique_id: 'u-1' }, 'u-1'],
    ['no name of its own', {}, 'switch/yard'],
    ['a device of other types', { device: 7, unique_id: 'u-2', name: ['x'] }, undefined],
    ['an identifier of control characters', { dev: { ids: ['a\u001b[31m'] } }, 'switch/yard'],
  ])('names a device with %s', (_, config, id) => {
    const { hear, properties, size } = listenTo(homeAssistant('homeassistant'))
    const message = () => hear('homeassistant/switch/yard/config', config)
    if (id === undefined) expect(message).toThrow('device')
    else {
      message()
      expect(properties(id)).toBeDefined()
    }
    expect(size()).toBe(id === undefined ? 0 : 1)
  })

  it.each([
    [{ avty_t: 'esp-1/status' }, 'esp-1/status', 'offline'],
    [{ '~': 'esp-1', avty: [{ t: '~/LWT', pl_not_avail: 'Off' }] }, 'esp-1/LWT', 'Off'],
    [{ availability: [{ topic: 'bridge/state' }] }, 'bridge/state', '{"state":"offline"}'],
  ])('leaves out a device with a last will by %j', (more, topic, offline) => {
    const { hear, properties, leftOut, watched } = listenTo(homeAssistant('homeassistant'))
    hear('homeassistant/sensor/t/config', entity(more))
    hear('homeassistant/sensor/h/config', entity(more))
    expect(watched).toEqual([topic])
    expect(properties('esp-1')).toBeDefined()
    hear(topic, offline)
    expect(properties('esp-1')).toBeUndefined()
    expect(leftOut('esp-1')).toMatchObject({ reason: 'offline' })
    hear(topic, 'online')
    expect(properties('esp-1')).toBeDefined()
  })

  it('subscribes to no wildcard and to nothing of the broker that a device names', () => {
    const { hear, watched } = listenTo(homeAssistant('homeassistant'))
    for (const topic of ['#', 'a/+', '$SYS/x', 'a\u0000b', 'x'.repeat(300)])
      hear('homeassistant/sensor/t/config', entity({ availability_topic: topic }))
    hear(
      'homeassistant/sensor/t/config',
      entity({ availability: Array.from({ length: 9 }, (_, n) => ({ topic: `t/${n}` })) }),
    )
    expect(watched).toEqual(['t/0', 't/1', 't/2', 't/3'])
  })
})

describe('zigbee2mqtt', () => {
  const list = 'zigbee2mqtt/bridge/devices'
  const lamp = {
    ...{ ieee_address: '0x01', type: 'Router', friendly_name: 'Kitchen lamp', disabled: false },
    definition: {
      vendor: 'IKEA',
      model: 'LED1',
      description: 'Bulb',
      exposes: [{ type: 'light' }],
    },
  }

  it('offers the devices of the list, and not the coordinator', () => {
    const { hear, properties, size } = listenTo(zigbee2mqtt('zigbee2mqtt'))
    const others = [
      { ieee_address: '0x00', type: 'Coordinator', friendly_name: 'Coordinator' },
      { ieee_address: '0x02', friendly_name: 'old', disabled: true },
    ]
    hear(list, [...others, lamp])
    expect(size()).toBe(1)
    expect(properties('0x01')).toEqual({
      ...{ MQTT_BROKER: 'mqtt://broker', MQTT_TOPIC: 'zigbee2mqtt/Kitchen lamp' },
      ...{ MQTT_NAME: 'Kitchen lamp', MQTT_TYPE: 'Router', MQTT_MANUFACTURER: 'IKEA' },
      ...{ MQTT_MODEL: 'LED1', MQTT_DESCRIPTION: 'Bulb' },
    })
    hear(list, [])
    expect(size()).toBe(0)
  })

  it.each([
    ['zigbee2mqtt/bridge/state', '{"state":"offline"}'],
    ['zigbee2mqtt/bridge/state', 'offline'],
    ['zigbee2mqtt/Kitchen lamp/availability', '{"state": "offline"}'],
  ])('leaves out a device while %s is %s', (topic, text) => {
    const { hear, properties, leftOut } = listenTo(zigbee2mqtt('zigbee2mqtt'))
    hear(list, [lamp])
    hear(topic, text)
    expect(properties('0x01')).toBeUndefined()
    expect(leftOut('0x01')).toEqual({ reason: 'offline', detail: `${topic} is offline` })
    hear(topic, '{"state":"online"}')
    expect(properties('0x01')).toBeDefined()
  })
})

describe('Sparkplug B', () => {
  /** A payload with the metric bdSeq (field 2: name, value). */
  const numbered = (bdSeq: number) =>
    Buffer.from([0x12, 0x09, 0x0a, 0x05, ...Buffer.from('bdSeq'), 0x58, bdSeq])
  const all = () => listenTo(sparkplug([], ['device', 'edgeNode']))

  it('offers edge nodes and devices from birth to death', () => {
    const { hear, properties } = all()
    hear('spBv1.0/plant/NBIRTH/node', numbered(1))
    hear('spBv1.0/plant/DBIRTH/node/pump', '')
    expect(properties('plant/node')).toMatchObject({ MQTT_TOPIC: 'spBv1.0/plant/NDATA/node' })
    expect(properties('plant/node/pump')).toEqual({
      ...{ MQTT_BROKER: 'mqtt://broker', MQTT_TOPIC: 'spBv1.0/plant/DDATA/node/pump' },
      ...{ MQTT_SPARKPLUG_GROUP: 'plant', MQTT_SPARKPLUG_EDGE_NODE: 'node' },
      MQTT_SPARKPLUG_DEVICE: 'pump',
    })
    hear('spBv1.0/plant/DDEATH/node/pump', '')
    expect(properties('plant/node/pump')).toBeUndefined()
    expect(properties('plant/node')).toBeDefined()
  })

  it('removes the devices of an edge node with it, and no others', () => {
    const { hear, properties, size } = all()
    for (const node of ['a', 'ab']) {
      hear(`spBv1.0/plant/NBIRTH/${node}`, numbered(1))
      hear(`spBv1.0/plant/DBIRTH/${node}/pump`, '')
    }
    hear('spBv1.0/plant/NDEATH/a', numbered(1))
    expect(size()).toBe(2)
    expect(properties('plant/ab/pump')).toBeDefined()
  })

  it('ignores the last will of an earlier connection', () => {
    const { hear, properties } = all()
    hear('spBv1.0/plant/NBIRTH/node', numbered(2))
    hear('spBv1.0/plant/NDEATH/node', numbered(1))
    expect(properties('plant/node')).toBeDefined()
    hear('spBv1.0/plant/NDEATH/node', numbered(2))
    expect(properties('plant/node')).toBeUndefined()
  })

  it.each([
    'spBv1.0/plant/DDATA/node/pump',
    '$sparkplug/certificates/spBv1.0/plant/DBIRTH/node/pump',
  ])('takes %s as a sign of life', (topic) => {
    const { hear, properties } = all()
    hear(topic, 'x')
    expect(properties('plant/node/pump')).toBeDefined()
  })

  it('offers only what the details name', () => {
    const { hear, properties } = listenTo(sparkplug(['plant'], ['device']))
    hear('spBv1.0/plant/NBIRTH/node', '')
    hear('spBv1.0/plant/DBIRTH/node/pump', '')
    expect(properties('plant/node')).toBeUndefined()
    hear('spBv1.0/plant/NDEATH/node', '')
    expect(properties('plant/node/pump')).toBeUndefined()
    expect(sparkplug(['plant'], ['device']).topics).not.toContain('spBv1.0/+/NBIRTH/+')
  })
})

describe('a topic pattern', () => {
  const plain = { topic: 'plant/+/+/info', properties: {}, offline: 'offline' }

  it('has the id in the levels of the topic', () => {
    const { hear, properties } = listenTo(topicPattern(plain))
    hear('plant/hall/pump/info', 'anything')
    hear('plant/hall/info', 'anything')
    expect(properties('hall/pump')).toEqual({
      MQTT_BROKER: 'mqtt://broker',
      MQTT_TOPIC: 'plant/hall/pump/info',
    })
  })

  it.each([
    ['$.serial', { serial: 77 }, '77'],
    ["$.a[1]['b c']", { a: [0, { 'b c': 'x' }] }, 'x'],
    ['$', 'x', 'x'],
    ['$.serial', { serial: { a: 1 } }, undefined],
    ['$.__proto__', {}, undefined],
    ['$.serial', { serial: 'a\nb' }, undefined],
    ['$.serial', { serial: '' }, undefined],
    ['$.serial', { serial: 'x'.repeat(300) }, undefined],
  ])('has the id at %s of %j', (id, payload, expected) => {
    const { hear, properties, size } = listenTo(topicPattern({ ...plain, id }))
    const message = () => hear('plant/hall/pump/info', JSON.stringify(payload))
    if (expected === undefined) expect(message).toThrow()
    else {
      message()
      expect(properties(expected)).toBeDefined()
    }
    expect(size()).toBe(expected === undefined ? 0 : 1)
  })

  it('has values of the message as properties, and leaves out what is no text', () => {
    const paths = { URL: '$.url', PORT: '$.port', MORE: '$.more', MISSING: '$.none' }
    const { hear, properties } = listenTo(topicPattern({ ...plain, properties: paths }))
    hear('plant/hall/pump/info', { url: 'http://x', port: 80, more: [1] })
    expect(properties('hall/pump')).toMatchObject({
      MQTT_VALUE_URL: 'http://x',
      MQTT_VALUE_PORT: '80',
    })
    expect(properties('hall/pump')?.MQTT_VALUE_MORE).toBeUndefined()
  })

  it('removes a device by a message without content, or by its last will', () => {
    for (const payload of ['', 'offline']) {
      const { hear, size } = listenTo(topicPattern({ ...plain, id: '$.serial' }))
      hear('plant/hall/pump/info', { serial: 7 })
      hear('plant/hall/pump/info', payload)
      expect(size()).toBe(0)
    }
  })

  it('leaves out a device by the last will on another topic', () => {
    const { hear, leftOut, watched } = listenTo(
      topicPattern({ ...plain, availability: 'plant/+/+/LWT', offline: 'Offline' }),
    )
    hear('plant/hall/pump/info', 'x')
    expect(watched).toEqual(['plant/hall/pump/LWT'])
    hear('plant/hall/pump/LWT', 'Offline')
    expect(leftOut('hall/pump')).toMatchObject({ reason: 'offline' })
  })

  it('takes the levels of a pattern as they are', () => {
    const { hear, size } = listenTo(topicPattern({ ...plain, topic: 'a.b/+' }))
    hear('axb/c', '')
    expect(size()).toBe(0)
  })
})

describe('what devices announce', () => {
  const pattern = { topic: 'd/+', properties: {}, offline: 'offline' }

  it('is left out with reasons: by the filter, and if there is too much of it', () => {
    const { hear, properties, leftOut } = listenTo(topicPattern(pattern), { items: ['a'] })
    hear('d/a', 'x')
    hear('d/b', 'x')
    expect(properties('a')).toBeDefined()
    expect(leftOut('b')).toEqual({ reason: 'filtered by ids' })
    const flood = listenTo(topicPattern(pattern))
    for (let n = 0; n <= MAX_DEVICES; n++) flood.hear(`d/${n}`, 'x')
    expect(flood.size()).toBe(MAX_DEVICES)
    expect(flood.leftOut(String(MAX_DEVICES))).toEqual({ reason: 'too many devices' })
    flood.hear('d/0', '')
    flood.hear(`d/${MAX_DEVICES}`, 'y')
    expect(flood.leftOut(String(MAX_DEVICES))).toBeUndefined()
  })

  it('is ignored beyond a number of messages', () => {
    const { hear, announced, leftOut } = listenTo(topicPattern(pattern))
    for (let n = 0; n < MAX_PARTS; n++) hear(`d/${n}`, 'x')
    expect(announced.isFull).toBe(false)
    hear('d/more', 'x')
    expect(announced.isFull).toBe(true)
    expect(leftOut('more')).toBeUndefined()
    const one = listenTo(topicPattern({ ...pattern, id: '$' }))
    for (let n = 0; n < MAX_PARTS_OF_DEVICE; n++) one.hear(`d/${n}`, '"a"')
    expect(one.announced.isFull).toBe(false)
    one.hear('d/more', '"a"')
    expect(one.announced.isFull).toBe(true)
  })

  it.each([
    ['homie', homie('homie')],
    ['homeAssistant', homeAssistant('homeassistant')],
    ['zigbee2mqtt', zigbee2mqtt('zigbee2mqtt')],
    ['sparkplug', sparkplug([], ['device', 'edgeNode'])],
    ['topicPattern', topicPattern({ ...pattern, id: '$.id' })],
  ])('can be anything: %s', (_, form) => {
    const topic = fc.oneof(
      fc.string(),
      fc.constantFrom(...form.topics.map((each) => each.replaceAll('+', 'x'))),
    )
    const payload = fc.oneof(fc.json(), fc.string(), fc.constantFrom('ready', 'lost'))
    fc.assert(
      fc.property(topic, payload, (name, text) => {
        const { hear, announced } = listenTo(form)
        try {
          hear(name, text)
        } catch (error) {
          expect(error).toMatchObject({ code: 'AKRI_ERR_MQTT_MESSAGE' })
        }
        for (const id of announced.leftOut.keys()) expect(id).not.toMatch(/\p{Cc}/u)
      }),
    )
  })
})
