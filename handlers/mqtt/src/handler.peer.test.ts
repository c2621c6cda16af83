import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { followDiscovery } from '@akrijs/sdk/host'
import { connectAsync } from 'mqtt'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { freePort } from '../../../test/support/free-port.js'
import { endProcess } from '../../../test/support/peer-process.js'
import { createMqttHandler } from './handler.js'

// The broker is mosquitto; devices are clients with a last will.

const has = (command: string, args: string[]) => spawnSync(command, args).error === undefined
const missing = [
  ...(has('mosquitto', ['-h']) ? [] : ['the Debian package mosquitto']),
  ...(has('openssl', ['version']) ? [] : ['the Debian package openssl']),
]
const needs = missing.length > 0 ? ` (needs ${missing.join(', ')})` : ''
const title = `the MQTT handler and mosquitto${needs}`
let directory: string
let stop: AbortController
let mosquitto: ChildProcess | undefined
let port: number

beforeEach(async () => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-mqtt-'))
  stop = new AbortController()
  port = await freePort()
})

afterEach(async () => {
  stop.abort()
  await endBroker()
  rmSync(directory, { recursive: true, force: true })
})

const file = (name: string) => path.join(directory, name)

async function startBroker(...lines: string[]) {
  writeFileSync(file('mosquitto.conf'), [`listener ${port} 127.0.0.1`, ...lines, ''].join('\n'))
  // As root it would become the user mosquitto, which cannot read the directory.
  const user = process.getuid?.() === 0 ? ['user root'] : []
  writeFileSync(file('mosquitto.conf'), [...user, ''].join('\n'), { flag: 'a' })
  mosquitto = spawn('mosquitto', ['-c', file('mosquitto.conf')], { stdio: 'ignore' })
  await eventually(async () => {
    const socket = net.connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.destroy()
  })
}

async function endBroker() {
  await endProcess(mosquitto)
}

function discover(details: object, properties: Readonly<Record<string, string>> = {}) {
  const lists = followDiscovery(createMqttHandler(), {
    details: JSON.stringify({
      broker: `mqtt://127.0.0.1:${port}`,
      firstListSeconds: 1,
      ...details,
    }),
    properties: DiscoveryProperties.fromTexts(properties),
    signal: stop.signal,
    log: silentLogger,
  })
  const next = async () => (await lists.next()).value ?? expect.fail('the discovery has ended')
  return {
    next,
    async until(...ids: string[]) {
      for (;;) {
        const list = await next()
        if (list.devices.map(({ id }) => id).join() === ids.join()) return list
      }
    },
  }
}

/** A client whose connection ends without a goodbye leaves its will. */
async function device(topic: string, will: string, messages: Readonly<Record<string, string>>) {
  const client = await connectAsync({
    ...{ host: '127.0.0.1', port, protocol: 'mqtt', reconnectPeriod: 0 },
    will: { topic, payload: Buffer.from(will), qos: 1, retain: true },
  })
  for (const [name, payload] of Object.entries(messages))
    await client.publishAsync(name, payload, { retain: true, qos: 1 })
  return { crash: () => client.stream.destroy() }
}

function openssl(...args: string[]) {
  const { status, stderr } = spawnSync('openssl', args, { cwd: directory, encoding: 'utf8' })
  if (status !== 0) throw new TypeError(`openssl ${args[0]}: ${stderr}`)
}

/** An authority, and a certificate of it for a name and a purpose. */
function certificates(name: string, san: string) {
  const subject = ['-nodes', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']
  openssl('req', '-x509', ...subject, ...'-keyout ca.key -out ca.pem -subj /CN=ca'.split(' '))
  openssl('req', ...subject, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', '/CN=x')
  writeFileSync(file('san'), `subjectAltName=${san}\n`)
  const signing = ['-req', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial']
  openssl('x509', ...signing, '-extfile', 'san', '-in', `${name}.csr`, '-out', `${name}.pem`)
}

const pem = (name: string) => readFileSync(file(name), 'utf8')
const ANONYMOUS = 'allow_anonymous true'

describe.skipIf(missing.length > 0)(title, () => {
  it('offers a device of Homie until its last will', async () => {
    await startBroker(ANONYMOUS)
    const { until } = discover({ homie: {} })
    await until()
    const state = 'homie/5/hall/$state'
    const hall = await device(state, 'lost', {
      'homie/5/hall/$description': '{"homie":"5.0","version":1,"name":"Hall"}',
      [state]: 'ready',
    })
    const { devices } = await until('hall')
    expect(devices).toMatchObject([
      {
        properties: {
          MQTT_BROKER: `mqtt://127.0.0.1:${port}`,
          MQTT_TOPIC: 'homie/5/hall',
          MQTT_NAME: 'Hall',
        },
      },
    ])
    hall.crash()
    const { leftOut } = await until()
    expect(leftOut.devices).toEqual([{ id: 'hall', reason: 'offline', detail: `${state} is lost` }])
  })

  it.each([
    [
      { homeAssistant: {} },
      { 'homeassistant/sensor/t/config': '{"uniq_id":"t","avty_t":"t/LWT"}' },
      't/LWT',
      't',
    ],
    [
      { zigbee2mqtt: {} },
      {
        'zigbee2mqtt/bridge/devices': '[{"ieee_address":"0x1","friendly_name":"Hall lamp"}]',
        'zigbee2mqtt/bridge/state': '{"state":"online"}',
      },
      'zigbee2mqtt/bridge/state',
      '0x1',
    ],
    [
      { topicPattern: { topic: 'tele/+/info', id: '$.mac', availability: 'tele/+/LWT' } },
      { 'tele/hall/info': '{"mac":"AA"}', 'tele/hall/LWT': 'online' },
      'tele/hall/LWT',
      'AA',
    ],
    [
      { sparkplug: { groups: ['plant'] } },
      { 'spBv1.0/plant/NBIRTH/node': 'x' },
      'spBv1.0/plant/NDEATH/node',
      'plant/node',
    ],
  ])('offers devices by %j until their last will', async (details, messages, will, id) => {
    await startBroker(ANONYMOUS)
    const client = await device(will, 'offline', messages)
    const { until } = discover(details)
    await until(id)
    client.crash()
    await until()
  })

  it('takes a user name and a password, and says that it needs or has wrong ones', async () => {
    spawnSync('mosquitto_passwd', ['-b', '-c', file('passwords'), 'akri', 'SECRET'])
    await startBroker('allow_anonymous false', `password_file ${file('passwords')}`)
    const homie = { homie: {} }
    await discover(homie, { username: 'akri', password: 'SECRET\n' }).until()
    await expect(discover(homie).next()).rejects.toThrow(/ wants a user name: /)
    const wrong = discover(homie, { username: 'akri', password: 'SECRET2' })
    await expect(wrong.next()).rejects.toThrow(
      `the broker mqtt://127.0.0.1:${port} refuses the username and password`,
    )
  })

  it('fails when the broker is killed, and finds devices again with the next call', async () => {
    await startBroker(ANONYMOUS)
    const { until, next } = discover({ homie: {} })
    await until()
    await endBroker()
    await expect(next()).rejects.toThrow(/ has closed the connection| cannot be used: /)
    await startBroker(ANONYMOUS)
    await device('homie/hall/$state', 'lost', { 'homie/hall/$state': 'ready' })
    await discover({ homie: {} }).until('hall')
  })

  it('checks the certificate and the name of the broker, and shows its own', async () => {
    certificates('server', 'DNS:localhost')
    await startBroker(
      ...[ANONYMOUS, `cafile ${file('ca.pem')}`, 'require_certificate true'],
      ...[`certfile ${file('server.pem')}`, `keyfile ${file('server.key')}`],
    )
    const ca = pem('ca.pem')
    const named = { homie: {}, broker: `mqtts://localhost:${port}` }
    const own = { ca, cert: pem('server.pem'), key: pem('server.key') }
    await discover(named, own).until()
    await expect(discover(named, { ca }).next()).rejects.toThrow(`the broker ${named.broker} `)
    await expect(discover(named).next()).rejects.toThrow(/cannot be used: .*certificate/)
    const numbered = { homie: {}, broker: `mqtts://127.0.0.1:${port}` }
    await expect(discover(numbered, own).next()).rejects.toThrow(/127\.0\.0\.1 is not in the cert/)
    const swapped = { ...own, key: pem('ca.key') }
    const error = await discover(named, swapped).next().then(String, String)
    expect(error).toContain('discoveryProperties ca, cert and key cannot be used')
    expect(error).not.toContain('PRIVATE')
  })
})
