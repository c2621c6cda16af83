import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { silentLogger } from '@akrijs/sdk'
import { UdpSocket } from '@akrijs/sdk/network'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { GroupListener } from './group-listener.js'
import { DISCOVERY_GROUP, DISCOVERY_PORT } from './message.js'
import type { ProbingInterface } from './network-interfaces.js'

// On the loopback interface, of which this machine has one.
alone()

const on = (index: string, name: string, address: string): ProbingInterface => ({
  key: `${index} ${address}`,
  index,
  name,
  family: 'IPv4',
  address,
})
const LOOPBACK = on('1', 'lo', '127.0.0.1')
/** An address that is for documentation, and so nobody's. */
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

/** Says something to the group on the loopback interface. @returns how often it is heard */
async function say(): Promise<number> {
  const text = randomUUID()
  await sender.send(Buffer.from(text), DISCOVERY_PORT, DISCOVERY_GROUP.IPv4)
  const count = () => heard.filter((one) => one === text).length
  await expect.poll(count).toBeGreaterThan(0)
  // Time for those that are too many.
  await sleep(100)
  return count()
}

describe('listening to what devices tell everybody', () => {
  it('is done once on an interface with several addresses', async () => {
    await listener.follow([LOOPBACK, { ...LOOPBACK, key: '1 127.0.0.2', address: '127.0.0.2' }])
    expect(await say()).toBe(1)
    expect(warned).toEqual([])
  })

  it('goes on with the other interfaces where one cannot be listened on, which is told once', async () => {
    await listener.follow([GONE, LOOPBACK])
    await listener.follow([GONE, LOOPBACK])
    expect(await say()).toBe(1)
    expect(warned).toMatchObject([{ interface: 'gone0', address: '192.0.2.77' }])
  })

  it('goes on where the kernel is of another opinion about who listens there', async () => {
    await listener.follow([LOOPBACK])
    // As one that was made anew, and the number of which cannot be read.
    await listener.follow([LOOPBACK, { ...LOOPBACK, index: 'lo', key: 'lo 127.0.0.1' }])
    expect(await say()).toBe(1)
    expect(warned).toEqual([])
  })

  it('begins anew on an interface that was away and has another address', async () => {
    await listener.follow([LOOPBACK, GONE])
    await listener.follow([GONE])
    await listener.follow([GONE, { ...LOOPBACK, key: '1 127.0.0.3', address: '127.0.0.3' }])
    expect(await say()).toBe(1)
    expect(warned).toMatchObject([{ interface: 'gone0' }])
  })
})
