import { randomUUID } from 'node:crypto'
import { once, setMaxListeners } from 'node:events'
import { createServer } from 'node:net'
import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { followDiscovery, type ReportedList } from '@akrijs/sdk/host'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alone } from '../../../test/support/alone.js'
import { createOnvifHandler } from './index.js'
import { SimulatedCamera } from './testing/index.js'
import { ANNOUNCEMENTS } from './testing/internal/awkward-cameras/awkward-announcements.js'
import type { AwkwardCamera } from './testing/internal/awkward-cameras/awkward-camera.js'
import { HTTP } from './testing/internal/awkward-cameras/awkward-http.js'
import { ONVIF } from './testing/internal/awkward-cameras/awkward-onvif.js'

// Cameras as they are found in the field, all on one network: the handler offers each of them, or
// tells why not. Sources: WS-Discovery (April 2005), ONVIF Core Specification, RFC 9112, RFC 7616.

alone()

const ALL = [...ANNOUNCEMENTS, ...HTTP, ...ONVIF]

/** What became of each camera, by name. */
const results = new Map<string, string>()
const cameras = new Map<AwkwardCamera, SimulatedCamera>()
const stop = new AbortController()

async function start(awkward: AwkwardCamera, index: number): Promise<SimulatedCamera> {
  const address = `127.77.${10 + Math.floor(index / 200)}.${1 + (index % 200)}`
  const [closedPort, port] = [await unusedPort(address), await unusedPort(address)]
  const options = awkward.options?.({ address, closedPort, port })
  const camera = await SimulatedCamera.start({ uuid: randomUUID(), address, ...options })
  Object.assign(camera.faults, { delayMs: 10 * (index % 50), ...awkward.faults })
  if (awkward.misbehave !== undefined) camera.service.misbehave(...awkward.misbehave)
  cameras.set(awkward, camera)
  return camera
}

async function unusedPort(address: string): Promise<number> {
  const server = createServer().listen(0, address)
  await once(server, 'listening')
  const place = server.address()
  server.close()
  await once(server, 'close')
  return typeof place === 'object' && place !== null ? place.port : expect.fail('no port')
}

function resultOf(
  { uuid, service }: SimulatedCamera,
  { devices, leftOut, problems }: ReportedList,
): string {
  const device = devices.find(({ properties }) => properties.ONVIF_DEVICE_UUID === uuid)
  // An answer that cannot be read has no UUID.
  const names = (id: string) => id.startsWith(uuid) || id === new URL(service.url).hostname
  if (device === undefined) return leftOut.devices.find(({ id }) => names(id))?.reason ?? 'not told'
  const authentication = device.properties.ONVIF_DEVICE_AUTHENTICATION
  const isProblem = problems.devices.some(({ id }) => id === device.id)
  const isRight = isProblem === (authentication === 'refused')
  return `offered ${authentication}${isRight ? '' : ' wrongly'}`
}

/** All discoveries of this file are one: a round of the handler with all cameras. */
beforeAll(async () => {
  setMaxListeners(0, stop.signal)
  for (const [index, awkward] of ALL.entries()) await start(awkward, index)
  const properties: Record<string, string> = {}
  for (const [{ as }, { uuid }] of cameras) {
    const name = uuid.replaceAll('-', '_')
    if (as !== undefined) properties[`username_${name}`] = as.username
    if (as !== undefined) properties[`password_${name}`] = as.password
  }
  const lists = followDiscovery(createOnvifHandler({ intervalMs: 2000 }), {
    details: JSON.stringify({
      interfaces: ['lo'],
      uuids: { items: [...cameras.values()].map(({ uuid }) => uuid) },
      discoveryTimeoutSeconds: 2,
    }),
    properties: DiscoveryProperties.fromTexts(properties),
    signal: stop.signal,
    log: silentLogger,
  })
  const deadline = setTimeout(() => stop.abort(), 240_000)
  for await (const list of lists) {
    for (const [awkward, camera] of cameras) results.set(awkward.name, resultOf(camera, list))
    const isProbed = [...cameras.values()].every(({ probes }) => probes > 0)
    const isDone = ALL.every(({ name, expected }) => results.get(name) === expected)
    if (isProbed && isDone) break
  }
  clearTimeout(deadline)
}, 280_000)

afterAll(async () => {
  stop.abort()
  await Promise.all([...cameras.values()].map((camera) => camera.close()))
})

describe.each([
  ['announcements', ANNOUNCEMENTS],
  ['HTTP', HTTP],
  ['ONVIF', ONVIF],
])('D2 a camera with awkward %s', (_what, awkward) => {
  it.each(awkward.map(({ name, expected }) => [name, expected]))('%s: %s', (name, expected) => {
    expect(results.get(name)).toBe(expected)
  })
})
