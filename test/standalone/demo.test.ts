import dgram from 'node:dgram'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { Instance } from '@akrijs/api'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { askAgent } from '../../cli/src/control/control-client.js'
import { alone } from '../support/alone.js'
import { AkriProgram } from './support/akri-program.js'

const missing = [
  ...(existsSync('/sys/class/mem/null') ? [] : ['/sys/class/mem']),
  ...((await hearsItself()) ? [] : ['multicast on the loopback interface, and port 3702 to share']),
]
/** Three processes load node-opcua while other tests run. */
const patience = { timeout: 90_000, interval: 250 }

let akri: AkriProgram

alone()

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

const title =
  missing.length > 0 ? `npm start -- --demo (needs ${missing.join(', ')})` : 'npm start -- --demo'

describe.skipIf(missing.length > 0)(title, () => {
  it('finds cameras, servers and udev devices, runs brokers, and leaves no process', async () => {
    akri.startDemo()
    await vi.waitFor(
      async () => expect(await found()).toEqual(['cameras', 'cameras', ...MACHINE, ...SERVERS]),
      patience,
    )
    // By the program, as a user does.
    await vi.waitFor(async () => {
      const instances = await akri.instances()
      const reported = (configuration: string) =>
        instances.filter(of(configuration)).map(({ status }) => status?.brokerInfo)
      const picture = { snapshot: expect.stringMatching(/^\d+ bytes/) }
      const value = expect.objectContaining({
        connected: 'yes',
        value: expect.stringMatching(/^\d+(\.\d)?$/),
      })
      expect(reported('cameras')).toEqual([picture, picture])
      expect(reported('opcua-servers')).toEqual([value, value])
    }, patience)

    process.kill(await pidOf('camera-gate'), 'SIGTERM')
    await vi.waitFor(async () => expect(await cameraGate()).toEqual([]), patience)
    await vi.waitFor(async () => expect(await cameraGate()).toHaveLength(1), patience)

    const all = processes()
    expect(all.length).toBeGreaterThan(9)
    expect(await akri.stop('SIGTERM')).toBe(0)
    await vi.waitFor(() => expect(all.filter(isAlive)).toEqual([]), patience)
  })

  it('leaves no process after a kill', async () => {
    akri.startDemo()
    await vi.waitFor(async () => {
      const used = (await look()).filter(({ spec }) =>
        Object.values(spec.deviceUsage).includes('node-a'),
      )
      expect(used.map(({ spec }) => spec.configurationName)).toEqual(
        expect.arrayContaining(['cameras', 'opcua-servers']),
      )
    }, patience)
    const all = processes()
    await akri.stop('SIGKILL')
    // Brokers of a killed agent end at their next output.
    await vi.waitFor(() => expect(all.filter(isAlive)).toEqual([]), patience)
  })
})

const MACHINE = ['memory-devices', 'memory-devices', 'memory-devices']
const SERVERS = ['opcua-servers', 'opcua-servers']

const of =
  (configuration: string) =>
  ({ spec }: Instance) =>
    spec.configurationName === configuration

/** By the control socket: a new program for each request would take most of the time. */
async function look(): Promise<Instance[]> {
  const { items } = (await askAgent(
    path.join(akri.state, 'control.sock'),
    '/apis/akri.sh/v0/instances',
  )) as {
    items: Instance[]
  }
  return items
}

async function found(): Promise<string[]> {
  return (await look()).map(({ spec }) => spec.configurationName).sort()
}

async function cameraGate(): Promise<Instance[]> {
  return (await look()).filter(({ spec }) =>
    spec.brokerProperties.ONVIF_DEVICE_SCOPES?.includes('/name/camera-gate'),
  )
}

async function pidOf(name: string): Promise<number> {
  return (
    processes().find((pid) => status(pid).startsWith(`Name:\t${name}\n`)) ??
    expect.fail(`there is no process ${name}`)
  )
}

/** The program and its descendants, in any process group. */
function processes(): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    parents.set(Number(name), Number(/^PPid:\s+(\d+)/m.exec(status(Number(name)))?.[1]))
  const all = akri.pid === undefined ? [] : [akri.pid]
  // The loop also visits added processes.
  for (const known of all) for (const [pid, parent] of parents) if (parent === known) all.push(pid)
  return all
}

/** A zombie has ended; its parent has not reaped it yet. */
function isAlive(pid: number): boolean {
  return /^State:\s+[^ZX]/m.test(status(pid))
}

function status(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}

/** Whether WS-Discovery works on the loopback interface, also if another program has its port. */
async function hearsItself(): Promise<boolean> {
  const socket = dgram.createSocket({ type: 'udp4', reuseAddr: true })
  try {
    socket.bind(3702, '239.255.255.250')
    await once(socket, 'listening')
    socket.addMembership('239.255.255.250', '127.0.0.1')
    return true
  } catch {
    return false
  } finally {
    socket.close()
  }
}
