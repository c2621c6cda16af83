import { once } from 'node:events'
import net from 'node:net'
import { InvalidDetailsError } from '@akrijs/sdk'
import type { ReportedList } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { Aedes } from 'aedes'
import { generate } from 'mqtt-packet'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { collectLists } from '../../../test/support/collected-lists.js'
import { eventually } from '../../../test/support/eventually.js'
import { createMqttHandler } from './handler.js'
import { MAX_PACKET_BYTES } from './limits.js'

let clock: ManualClock
let stop: AbortController
let broker: Aedes
let server: net.Server
let sockets: net.Socket[]
let url: string
let lists: readonly ReportedList[]

beforeEach(async () => {
  clock = new ManualClock()
  stop = new AbortController()
  lists = []
  broker = await Aedes.createBroker()
  await serve((socket) => broker.handle(socket))
})

afterEach(async () => {
  stop.abort()
  await closeServer()
  await new Promise<void>((resolve) => broker.close(() => resolve()))
})

async function serve(handle: (socket: net.Socket) => void, port = 0) {
  sockets = []
  server = net.createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    handle(socket)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  url = `mqtt://127.0.0.1:${portOf(server)}`
}

function portOf(listening: net.Server): number {
  const address = listening.address()
  return typeof address === 'object' && address !== null ? address.port : expect.fail('no port')
}

async function closeServer() {
  server.close()
  for (const socket of sockets) socket.destroy()
}

function discover(
  details: object = { topicPattern: { topic: 'sensors/+' } },
  properties: Readonly<Record<string, string>> = {},
) {
  const handler = createMqttHandler({ clock })
  const collected = collectLists(handler, { broker: url, ...details }, stop.signal, properties)
  lists = collected.lists
  return collected
}

const publish = (topic: string, payload: string | Buffer) =>
  new Promise<void>((resolve, reject) =>
    broker.publish({ cmd: 'publish', topic, payload, qos: 0, retain: true, dup: false }, (error) =>
      error ? reject(error) : resolve(),
    ),
  )

/** Messages take real time, and lists the time of the clock. */
const shows = (check: (list: ReportedList) => void) =>
  eventually(async () => {
    await clock.advance(500)
    check(lists.at(-1) ?? expect.fail('there is no list'))
  })
const idsOf = ({ devices }: ReportedList) => devices.map(({ id }) => id)

describe('the MQTT handler', () => {
  it('offers what is retained, what comes later, and no longer what is removed', async () => {
    await publish('sensors/hall', 'here')
    discover()
    await shows((list) => expect(idsOf(list)).toEqual(['hall']))
    expect(lists.at(-1)?.devices[0]?.properties).toEqual({
      MQTT_BROKER: url,
      MQTT_TOPIC: 'sensors/hall',
    })
    await publish('sensors/yard', 'here')
    await shows((list) => expect(idsOf(list)).toEqual(['hall', 'yard']))
    await publish('sensors/hall', '')
    await shows((list) => expect(idsOf(list)).toEqual(['yard']))
  })

  it('gives its first list after the time of the details', async () => {
    await publish('sensors/hall', 'here')
    discover({ topicPattern: { topic: 'sensors/+' }, firstListSeconds: 60 })
    await eventually(() => expect(broker.connectedClients).toBe(1))
    await clock.advance(59_000)
    expect(lists).toEqual([])
    await shows((list) => expect(idsOf(list)).toEqual(['hall']))
  })

  it('forgets a device that is silent', async () => {
    discover({ topicPattern: { topic: 'sensors/+' }, forgetAfterSeconds: 60 })
    await shows((list) => expect(idsOf(list)).toEqual([]))
    await publish('sensors/hall', 'here')
    await shows((list) => expect(idsOf(list)).toEqual(['hall']))
    await clock.advance(60_000)
    await shows((list) => expect(idsOf(list)).toEqual([]))
  })

  it('follows the last will that a device names', async () => {
    await publish('homie/hall/$state', 'ready')
    await publish('homeassistant/sensor/t/config', '{"uniq_id":"t","avty_t":"t/status"}')
    discover({ homeAssistant: {} })
    await shows((list) => expect(idsOf(list)).toEqual(['t']))
    await publish('t/status', 'offline')
    await shows((list) => expect(idsOf(list)).toEqual([]))
    expect(lists.at(-1)?.leftOut.devices).toEqual([
      { id: 't', reason: 'offline', detail: 't/status is offline' },
    ])
  })

  it('says what it heard nothing of', async () => {
    discover({ homie: {} })
    await shows(({ remarks }) =>
      expect(remarks).toEqual([expect.stringMatching(/^no message from mqtt:.* on homie\/\+\//)]),
    )
  })

  it('leaves out what is no announcement, with the reason', async () => {
    await publish('homeassistant/sensor/a/config', '{')
    await publish('homeassistant/sensor/b/config', '{"device":7}')
    discover({ homeAssistant: {} })
    await shows(({ leftOut }) =>
      expect(leftOut.devices).toEqual([
        {
          id: 'homeassistant/sensor/a/config',
          reason: 'announcement not read',
          detail: 'it is not JSON',
        },
        {
          id: 'homeassistant/sensor/b/config',
          reason: 'announcement not read',
          detail: expect.stringMatching(/^device: /),
        },
      ]),
    )
    await publish('homeassistant/sensor/a/config', '{}')
    await shows((list) => expect(idsOf(list)).toEqual(['sensor/a']))
    await publish('homeassistant/sensor/a/config', '{')
    await shows((list) => expect(idsOf(list)).toEqual([]))
  })

  it('finds other devices beside one with a message that is too long', async () => {
    await publish('sensors/long', Buffer.alloc(MAX_PACKET_BYTES, 'x'))
    await publish('sensors/hall', 'here')
    discover()
    await shows((list) => expect(idsOf(list)).toEqual(['hall']))
    expect(lists.at(-1)?.remarks).toEqual([
      `messages ignored, longer than ${MAX_PACKET_BYTES} bytes: 1`,
    ])
  })

  it('fails with the reason if there is no broker', async () => {
    await closeServer()
    const { ended } = discover()
    await expect(ended).rejects.toThrow(
      new RegExp(`the broker ${url} cannot be used: connect ECONNREFUSED`),
    )
    expect(lists).toEqual([])
  })

  it('fails if the broker goes away, so that the agent keeps the devices for a while', async () => {
    const { ended } = discover()
    await shows((list) => expect(idsOf(list)).toEqual([]))
    await closeServer()
    await expect(ended).rejects.toThrow(`the broker ${url} has closed the connection`)
  })

  it.each([
    [{}, 'wants a user name: write discoveryProperties username and password'],
    [
      { username: 'akri', password: 'SECRET-wrong' },
      'refuses the username and password of discoveryProperties',
    ],
  ])('fails with a sentence without secrets if the broker refuses %j', async (given, sentence) => {
    broker.authenticate = (_, _username, _password, done) =>
      done(Object.assign(new Error('no'), { returnCode: 4 }), false)
    const { ended } = discover(undefined, given)
    const error = await ended.then(
      () => expect.fail('it has not failed'),
      (thrown: Error) => thrown,
    )
    expect(error.message).toContain(`the broker ${url} ${sentence}`)
    expect(error.message).not.toMatch(/SECRET|akri:/)
  })

  it('sends user name and password, without the line break of their files', async () => {
    const got: unknown[] = []
    broker.authenticate = (_, username, password, done) => {
      got.push(username, password?.toString())
      done(null, true)
    }
    await publish('sensors/hall', 'here')
    discover(undefined, { username: 'akri\n', password: 'SECRET\r\n' })
    await shows((list) => expect(idsOf(list)).toEqual(['hall']))
    expect(got).toEqual(['akri', 'SECRET'])
    expect(JSON.stringify(lists)).not.toContain('SECRET')
  })

  it('fails if the broker refuses a subscription, unless it can do without', async () => {
    broker.authorizeSubscribe = (_, subscription, done) =>
      done(null, subscription.topic.startsWith('$sparkplug') ? null : subscription)
    await publish('spBv1.0/plant/NDATA/node', 'x')
    discover({ sparkplug: {} })
    await shows((list) => expect(idsOf(list)).toEqual(['plant/node']))
    broker.authorizeSubscribe = (_, _subscription, done) => done(null, null)
    const { ended } = discover()
    await expect(ended).rejects.toThrow(
      `the broker ${url} refuses the subscription to sensors/+: Subscribe error`,
    )
  })

  it('disconnects at its end', async () => {
    discover()
    await shows((list) => expect(idsOf(list)).toEqual([]))
    expect(broker.connectedClients).toBe(1)
    stop.abort()
    await eventually(() => expect(broker.connectedClients).toBe(0))
  })

  it.each([
    ['no MQTT', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ['a message before the answer', generate(message('sensors/x'))],
    ['an answer to nothing', Buffer.from([0x90, 3, 0, 1, 0x80])],
    ['a length without an end', Buffer.alloc(9, 0xff)],
  ])('survives a broker that sends %s', async (_, bytes) => {
    await closeServer()
    await serve((socket) => socket.end(bytes))
    const { ended } = discover()
    await expect(ended).rejects.toThrow(`the broker ${url}`)
  })

  it('goes on if a broker sends a message before the subscription', async () => {
    await publish('sensors/hall', 'here')
    broker.once('connackSent', () => sockets[0]?.write(generate(message('other'))))
    discover()
    await shows((list) => expect(idsOf(list)).toEqual(['hall']))
  })

  it.each([
    [{}, 'name one of homie, homeAssistant'],
    [{ homie: {}, zigbee2mqtt: {} }, 'name one of homie, homeAssistant'],
    [{ homie: {}, broker: 'http://x' }, 'broker: write a URL such as mqtt://host:1883'],
    [{ homie: {}, broker: 'mqtt://user:secret@x' }, 'broker: write a URL'],
    [{ homie: {}, broker: 'mqtt://x/topic' }, 'broker: write a URL'],
    [{ homie: { prefix: '#' } }, 'homie.prefix: write a topic without wildcards'],
    [{ sparkplug: { groups: ['+'] } }, 'sparkplug.groups'],
    [{ topicPattern: { topic: '#' } }, 'topicPattern.topic: write a topic whose first level'],
    [{ topicPattern: { topic: '+/a' } }, 'topicPattern.topic: write a topic whose first level'],
    [{ topicPattern: { topic: 'a/#' } }, '# is not allowed'],
    [{ topicPattern: { topic: 'a/+', id: '$..x' } }, 'topicPattern.id: write a JSON path'],
    [{ topicPattern: { topic: 'a/+', availability: 'a/+/+' } }, 'availability has more +'],
    [{ topicPattern: { topic: 'a/+', properties: { 'a=b': '$.a' } } }, 'topicPattern.properties'],
    [{ homie: {}, password: 'x' }, 'password'],
  ])('refuses the details %j', async (details, problem) => {
    const { ended } = discover(details)
    await expect(ended).rejects.toThrow(InvalidDetailsError)
    await expect(ended).rejects.toThrow(problem)
  })
})

function message(topic: string) {
  return { cmd: 'publish', topic, payload: 'x', qos: 0, dup: false, retain: true } as const
}
