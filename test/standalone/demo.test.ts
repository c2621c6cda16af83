import dgram from 'node:dgram'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import type { Instance } from '@akrijs/api'
import { expect, it, vi } from 'vitest'
import { alone } from '../support/alone.js'
import { describeUnless } from '../support/unless.js'
import { AkriProgram } from './support/akri-program.js'
import { isAlive, processesOf, statusOf } from './support/processes.js'

const missing = [
  ...(existsSync('/sys/class/mem/null') ? [] : ['/sys/class/mem']),
  ...((await hearsItself()) ? [] : ['multicast on the loopback interface, and port 3702 to share']),
]
/** Three processes load node-opcua while other tests run: minutes on a busy machine. */
const patience = { timeout: 500_000, interval: 250 }

const akri = AkriProgram.ofEachTest()

alone()

describeUnless(missing, 'npm start -- --demo', () => {
  it('finds cameras, servers and udev devices, runs brokers, and leaves no process', async () => {
    akri.startDemo()
    await vi.waitFor(
      async () => expect(await found()).toEqual(['cameras', 'cameras', ...MACHINE, ...SERVERS]),
      patience,
    )
    await vi.waitFor(allReport, patience)

    const names = await devices()
    const page = (await cameraGate())[0]?.status?.brokerInfo?.page ?? expect.fail('no page')
    expect((await fetchPicture(page)).byteLength).toBeGreaterThan(2000)

    process.kill(await pidOf('camera-gate'), 'SIGTERM')
    await vi.waitFor(async () => expect(await cameraGate()).toEqual([]), patience)
    await vi.waitFor(async () => expect(await cameraGate()).toHaveLength(1), patience)

    const all = processesOf(akri.pid ?? 0)
    expect(all.length).toBeGreaterThan(9)
    expect(await akri.stop('SIGTERM')).toBe(0)
    await vi.waitFor(() => expect(all.filter(isAlive)).toEqual([]), patience)

    // The same devices, at the same addresses.
    akri.startDemo()
    await vi.waitFor(allReport, patience)
    expect(await devices()).toEqual(names)
    await akri.stop('SIGTERM')
  })

  it('leaves no process after a kill', async () => {
    akri.startDemo()
    await vi.waitFor(async () => {
      const used = (await akri.instances()).filter(({ spec }) =>
        Object.values(spec.deviceUsage).includes('node-a'),
      )
      expect(used.map(({ spec }) => spec.configurationName)).toEqual(
        expect.arrayContaining(['cameras', 'opcua-servers']),
      )
    }, patience)
    const all = processesOf(akri.pid ?? 0)
    await akri.stop('SIGKILL')
    // Brokers of a killed agent end at their next output.
    await vi.waitFor(() => expect(all.filter(isAlive)).toEqual([]), patience)
  })
})

async function fetchPicture(page: string): Promise<Buffer> {
  const reply = await fetch(page)
  expect(reply.headers.get('content-type')).toBe('image/jpeg')
  return Buffer.from(await reply.arrayBuffer())
}

const MACHINE = ['memory-devices', 'memory-devices', 'memory-devices']
const SERVERS = ['opcua-servers', 'opcua-servers']

const of =
  (configuration: string) =>
  ({ spec }: Instance) =>
    spec.configurationName === configuration

async function allReport(): Promise<void> {
  const instances = await akri.instances()
  const reported = (configuration: string) =>
    instances.filter(of(configuration)).map(({ status }) => status?.brokerInfo)
  const picture = {
    page: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/$/),
    snapshot: expect.stringMatching(/^\d+ bytes/),
  }
  const value = expect.objectContaining({
    connected: 'yes',
    status: 'Good',
    value: expect.stringMatching(/^\d+(\.\d)?$/),
  })
  expect(reported('cameras')).toEqual([picture, picture])
  expect(reported('opcua-servers')).toEqual([value, value])
}

/** Names, UUIDs and addresses of the devices of the network. */
async function devices(): Promise<string[]> {
  return (await akri.instances())
    .filter(({ spec }) => spec.configurationName !== 'memory-devices')
    .map(({ metadata, spec }) => {
      const { ONVIF_DEVICE_UUID, ONVIF_DEVICE_SERVICE_URL, OPCUA_DISCOVERY_URL } =
        spec.brokerProperties
      const address = ONVIF_DEVICE_SERVICE_URL ?? OPCUA_DISCOVERY_URL
      return `${metadata.name} ${ONVIF_DEVICE_UUID} ${address}`
    })
    .sort()
}

async function found(): Promise<string[]> {
  return (await akri.instances()).map(({ spec }) => spec.configurationName).sort()
}

async function cameraGate(): Promise<Instance[]> {
  return (await akri.instances()).filter(({ spec }) =>
    spec.brokerProperties.ONVIF_DEVICE_SCOPES?.includes('/name/camera-gate'),
  )
}

async function pidOf(name: string): Promise<number> {
  return (
    processesOf(akri.pid ?? 0).find((pid) => statusOf(pid).startsWith(`Name:\t${name}\n`)) ??
    expect.fail(`there is no process ${name}`)
  )
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
