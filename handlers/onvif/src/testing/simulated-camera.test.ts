import { randomUUID } from 'node:crypto'
import { UdpSocket } from '@akrijs/sdk/network'
import { describe, expect, it, onTestFinished } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { eventually } from '../../../../test/support/eventually.js'
import {
  type Announcement,
  DISCOVERY_GROUP,
  DISCOVERY_PORT,
  decodeMessage,
} from '../ws-discovery/message.js'
import { query } from './internal/camera-query.js'
import { SimulatedCamera } from './simulated-camera.js'

// All tests of this machine share the loopback interface.
alone()

const ADDRESS = '127.77.0.1'

/** Sends a Probe as other clients write it. @returns the announcements of the answers */
async function probe(types: string, declared = ''): Promise<readonly Announcement[]> {
  const answers: Announcement[] = []
  const id = `uuid:${randomUUID()}`
  const socket = await UdpSocket.open({
    family: 'IPv4',
    address: ADDRESS,
    multicastInterface: ADDRESS,
    onDatagram: ({ bytes }) => {
      const message = decodeMessage(bytes)
      if (message.kind === 'ProbeMatches') answers.push(...message.matches)
    },
    onBroken: () => {},
  })
  onTestFinished(() => socket.close())
  const text =
    '<?xml version="1.0"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" ' +
    'xmlns:w="http://schemas.xmlsoap.org/ws/2004/08/addressing" ' +
    `xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery"${declared}>` +
    `<s:Header><w:MessageID>${id}</w:MessageID></s:Header>` +
    `<s:Body><d:Probe><d:Types>${types}</d:Types></d:Probe></s:Body></s:Envelope>`
  await socket.send(Buffer.from(text), DISCOVERY_PORT, DISCOVERY_GROUP.IPv4)
  return answers
}

describe('a simulated camera', () => {
  it.each([
    ['a prefix that is declared nowhere', 'netwv:NetworkVideoTransmitter', ''],
    ['no prefix', 'NetworkVideoTransmitter', ''],
    [
      'a declared prefix',
      'x:NetworkVideoTransmitter',
      ' xmlns:x="http://www.onvif.org/ver10/network/wsdl"',
    ],
  ])('answers a Probe whose type has %s', async (_what, types, declared) => {
    await using camera = await SimulatedCamera.start({ address: ADDRESS })
    camera.faults.delayMs = 0
    const answers = await probe(types, declared)
    await eventually(() => expect(answers.map(({ uuid }) => uuid)).toContain(camera.uuid))
  })

  it('does not answer a Probe for another type', async () => {
    await using camera = await SimulatedCamera.start({ address: ADDRESS })
    camera.faults.delayMs = 0
    await probe('x:NetworkVideoTransmitter', ' xmlns:x="http://printers.example/"')
    await probe('x:Printer')
    const answers = await probe('tds:Device')
    await eventually(() => expect(answers.map(({ uuid }) => uuid)).toContain(camera.uuid))
    expect(camera.probes).toBe(1)
  })

  it('announces the scopes that it tells, and has facts of its own', async () => {
    await using first = await SimulatedCamera.start({ address: ADDRESS })
    await using second = await SimulatedCamera.start({ address: ADDRESS })
    await using again = await SimulatedCamera.start({ address: ADDRESS, uuid: first.uuid })
    const all = [first, second, again]
    for (const camera of all) camera.faults.delayMs = 0
    const facts = await Promise.all(all.map(({ service }) => query(service.url)))
    const answers = await probe('NetworkVideoTransmitter')
    await eventually(() => {
      for (const [index, { service }] of all.entries()) {
        const announced = answers.find(({ xAddrs }) => xAddrs.includes(service.url))
        expect(announced?.scopes).toEqual(facts[index]?.scopes)
      }
    })
    const [one, two, three] = facts.map(({ serialNumber, macAddress }) => ({
      serialNumber,
      macAddress,
    }))
    expect(one).toEqual(three)
    expect(one?.serialNumber).not.toBe(two?.serialNumber)
    expect(one?.macAddress).not.toBe(two?.macAddress)
    expect(one?.macAddress).toMatch(/^02(:[\da-f]{2}){5}$/)
  })
})
