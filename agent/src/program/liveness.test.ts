import { once } from 'node:events'
import { link, rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import type { DevicePlugins } from '../plugins/device-plugins.js'
import { livenessCheck } from './liveness.js'

let directory: string
let clock: ManualClock
let servers: net.Server[]
let registration: string
let plugins: DevicePlugins['served']
let liveness: ReturnType<typeof livenessCheck>
/** The number of connections to plugins. */
let dials: number
/** The log lines. */
let logged: unknown[]

beforeEach(async () => {
  directory = await temporaryDirectory()
  clock = new ManualClock(1000)
  servers = []
  dials = 0
  registration = await serve('agent-registration')
  plugins = []
  logged = []
  const note = (fields: object, message: string) => void logged.push([message, fields])
  const log = { ...silentLogger, info: note, error: note }
  const served = {
    get served() {
      return plugins
    },
  }
  liveness = livenessCheck({ registration, plugins: served, clock, log })
})

afterEach(async () => {
  for (const server of servers) server.close()
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

/** A device plugin for each name, all on one server. */
async function manyPlugins(count: number): Promise<DevicePlugins['served']> {
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
  it('is logged once when it is lost and once when it returns', async () => {
    const problem = `${registration} does not answer`
    const lost = ['agent became unhealthy', { problem }]
    const back = ['agent became healthy', { was: problem }]
    const logs = async (...lines: unknown[]) => {
      for (let probe = 0; probe < 2; probe++) await liveness()
      expect(logged.splice(0)).toEqual(lines)
    }
    await logs()
    await link(registration, fileOf('aside'))
    await rm(registration)
    await logs(lost)
    await link(fileOf('aside'), registration)
    await logs(back)
    await rm(registration)
    await logs(lost)
  })

  it('is lost if the socket of a plugin is gone for 15 s, and returns with another', async () => {
    const lost = { resourceName: 'akri.sh/cam-8120fe', socket: fileOf('gone') }
    plugins = [...(await manyPlugins(2)), lost]
    expect(await liveness()).toBeUndefined()
    await clock.advance(14_999)
    expect(await liveness()).toBeUndefined()
    await clock.advance(1)
    for (let probe = 0; probe < 3; probe++)
      expect(await liveness()).toBe(
        `the device plugin of akri.sh/cam-8120fe does not answer on ${lost.socket}`,
      )
    plugins = [...plugins.slice(0, 2), { ...lost, socket: await serve('again') }]
    expect(await liveness()).toBeUndefined()
  })

  it('costs 32 dials with 1,000 device plugins, and reports each silent plugin', async () => {
    plugins = await manyPlugins(1000)
    const check = async () => {
      const problem = await liveness()
      // The server accepts one connection in each turn of the event loop.
      for (let turn = 0; turn < 70; turn++) await new Promise(setImmediate)
      return problem
    }
    /** The problems of so many probes. */
    const probe = async (count: number, afterMs = 0) => {
      const found = new Set<string | undefined>()
      dials = 0
      for (let each = 0; each < count; each++) {
        found.add(await check())
        await clock.advance(afterMs)
      }
      expect(dials).toBe(count * 32)
      return [...found]
    }
    expect(await probe(32)).toEqual([undefined])
    for (const index of [0, 777]) {
      const { socket = '' } = plugins[index] ?? {}
      await rm(socket)
      // A removed socket counts as no dial.
      for (let count = 0; count < 32; count++) {
        await check()
        await clock.advance(10_000)
      }
      expect(await probe(3)).toEqual([expect.stringMatching(`akri.sh/cam-${index} `)])
      await link(fileOf('many'), socket)
      expect(await liveness()).toBeUndefined()
    }
  })
})
