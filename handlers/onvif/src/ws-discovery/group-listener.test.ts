import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { silentLogger } from '@akrijs/sdk'
import { UdpSocket } from '@akrijs/sdk/network'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { GroupListener } from './group-listener.js'
import { DISCOVERY_GROUP, DISCOVERY_PORT } from './message.js'
import type { ProbingInterface } from './network-interfaces.js'

// All tests of this machine share the loopback interface.
alone()

const on = (index: string, name: string, address: string): ProbingInterface => ({
  key: `${index} ${address}`,
  index,
  name,
  family: 'IPv4',
  address,
})
const LOOPBACK = on('1', 'lo', '127.0.0.1')
/** An address for documentation, which no machine has. */
const GONE = on('77', 'gone0', '192.0.2.77')

let listener: GroupListener
let sender: UdpSocket
let heard: string[]
let warned: unknown[]

beforeEach(async () => {
  heard = []
  warned = []
  const ignore = () => {}
  const log = { ...silentLogger, warn: (fields: object) => warned.push(fields) }
  listener = new GroupListener({
    log,
    onDatagram: ({ bytes }) => heard.push(Buffer.from(bytes).toString()),
  })
  const options = {
    family: 'IPv4',
    address: '127.0.0.1',
    multicastInterface: '127.0.0.1',
    onDatagram: ignore,
  } as const
  sender = await UdpSocket.open({ ...options, onBroken: ignore })
})

afterEach(() => {
  listener.close()
  sender.close()
})

/**
 * Sends a text to the group on the loopback interface. @returns how often the listener receives it
 */
async function say(): Promise<number> {
  const text = randomUUID()
  await sender.send(Buffer.from(text), DISCOVERY_PORT, DISCOVERY_GROUP.IPv4)
  const count = () => heard.filter((received) => received === text).length
  await expect.poll(count).toBeGreaterThan(0)
  // Time for duplicates.
  await sleep(100)
  return count()
}

describe('the group listener', () => {
  it('receives each datagram once on an interface with several addresses', async () => {
    await listener.follow([LOOPBACK, { ...LOOPBACK, key: '1 127.0.0.2', address: '127.0.0.2' }])
    expect(await say()).toBe(1)
    expect(warned).toEqual([])
  })

  it('listens on the other interfaces if one fails, and logs the failure once', async () => {
    await listener.follow([GONE, LOOPBACK])
    await listener.follow([GONE, LOOPBACK])
    expect(await say()).toBe(1)
    expect(warned).toMatchObject([{ interface: 'gone0', address: '192.0.2.77' }])
  })

  it('works if the kernel already has the membership', async () => {
    await listener.follow([LOOPBACK])
    // An interface that was created again, and whose number cannot be read.
    await listener.follow([LOOPBACK, { ...LOOPBACK, index: 'lo', key: 'lo 127.0.0.1' }])
    expect(await say()).toBe(1)
    expect(warned).toEqual([])
  })

  it('listens again on an interface that was away and has another address', async () => {
    await listener.follow([LOOPBACK, GONE])
    await listener.follow([GONE])
    await listener.follow([GONE, { ...LOOPBACK, key: '1 127.0.0.3', address: '127.0.0.3' }])
    expect(await say()).toBe(1)
    expect(warned).toMatchObject([{ interface: 'gone0' }])
  })
})
