import { once } from 'node:events'
import { link, mkdtemp, rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { type LogMethod, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Liveness, type ServedPlugin } from './liveness.js'

let directory: string
let clock: ManualClock
let servers: net.Server[]
let registration: string
let plugins: ServedPlugin[]
let liveness: Liveness
/** The number of connections to plugins. */
let dials: number
/** The log lines. */
let logged: unknown[]

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-live-'))
  clock = new ManualClock(1000)
  servers = []
  dials = 0
  registration = await serve('agent-registration')
  plugins = []
  logged = []
  const note =
    (level: string): LogMethod =>
    (fields, message) =>
      logged.push([level, message, fields])
  const log = { ...silentLogger, info: note('info'), error: note('error') }
  liveness = new Liveness({ registration, plugins: () => plugins, clock, log })
})

afterEach(async () => {
  for (const server of servers) server.close()
  await rm(directory, { recursive: true, force: true })
})

const fileOf = (name: string) => path.join(directory, `${name}.sock`)

async function serve(name: string, onDial = () => {}): Promise<string> {
  const server = net
    .createServer((socket) => socket.on('error', () => {}).destroy())
    .on('connection', onDial)
  servers.push(server)
  await once(server.listen(fileOf(name)), 'listening')
  return fileOf(name)
}

/** A socket whose server has died: a file without a listener. */
async function abandoned(name: string): Promise<string> {
  await serve('dying')
  await link(fileOf('dying'), fileOf(name))
  servers.pop()?.close()
  return fileOf(name)
}

/** A device plugin for each name, all on one server. */
async function manyPlugins(count: number): Promise<ServedPlugin[]> {
  const server = await serve('many', () => dials++)
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const socket = fileOf(`akri-cam-${index}`)
      await link(server, socket)
      return { resourceName: `akri.sh/cam-${index}`, socket }
    }),
  )
}

describe('the liveness of an agent', () => {
  it('holds while all of its sockets answer', async () => {
    plugins = await manyPlugins(3)
    expect(await liveness.problem()).toBeUndefined()
    expect(dials).toBe(3)
  })

  it('is logged once when it is lost and once when it returns', async () => {
    const askTwice = async () => {
      for (let probe = 0; probe < 2; probe++) await liveness.problem()
    }
    await askTwice()
    expect(logged).toEqual([])
    const lost = ['error', 'agent became unhealthy', { problem: `${registration} does not answer` }]
    const back = ['info', 'agent became healthy', { was: `${registration} does not answer` }]
    await link(registration, fileOf('aside'))
    await rm(registration)
    await askTwice()
    expect(logged).toEqual([lost])
    await link(fileOf('aside'), registration)
    await askTwice()
    expect(logged).toEqual([lost, back])
    await rm(registration)
    await askTwice()
    expect(logged).toEqual([lost, back, lost])
  })

  it.each([
    ['is gone', async () => fileOf('gone')],
    ['belongs to no agent any more', () => abandoned('abandoned')],
  ])(
    'is lost if the socket of a device plugin %s for 15 s, and returns with another socket',
    async (_, make) => {
      const lost = { resourceName: 'akri.sh/cam-8120fe', socket: await make() }
      plugins = [...(await manyPlugins(2)), lost]
      expect(await liveness.problem()).toBeUndefined()
      await clock.advance(14_999)
      expect(await liveness.problem()).toBeUndefined()
      await clock.advance(1)
      for (let probe = 0; probe < 3; probe++)
        expect(await liveness.problem()).toBe(
          `the device plugin of akri.sh/cam-8120fe does not answer on ${lost.socket}`,
        )
      plugins = [...plugins.slice(0, 2), { ...lost, socket: await serve('anew') }]
      expect(await liveness.problem()).toBeUndefined()
    },
  )

  it('holds for an agent that serves a plugin again within 15 s, however often', async () => {
    for (let round = 0; round < 5; round++) {
      plugins = [{ resourceName: 'akri.sh/cam', socket: fileOf(`gone-${round}`) }]
      expect(await liveness.problem()).toBeUndefined()
      await clock.advance(10_000)
    }
  })

  it('costs 32 dials with 1,000 device plugins, and reports each silent plugin', async () => {
    plugins = await manyPlugins(1000)
    const probe = async (afterMs = 0) => {
      const found = await liveness.problem()
      // It also lets the server see each dial.
      await clock.advance(afterMs)
      return found
    }
    for (let count = 1; count <= 32; count++) {
      expect(await probe()).toBeUndefined()
      expect(dials).toBe(count * 32)
    }
    for (const index of [0, 777]) {
      const { socket = '' } = plugins[index] ?? {}
      await rm(socket)
      for (let count = 0; count < 32; count++) await probe(10_000)
      dials = 0
      for (let count = 0; count < 3; count++) expect(await probe()).toMatch(`akri.sh/cam-${index} `)
      expect(dials).toBe(3 * 32)
      await link(fileOf('many'), socket)
      expect(await probe()).toBeUndefined()
    }
  })
})
