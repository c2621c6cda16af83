import { randomUUID } from 'node:crypto'
import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { expect, it, onTestFinished } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { eventually } from '../../../../test/support/eventually.js'
import { createOnvifHandler } from '../index.js'
import { DiscoveryResponder } from '../testing/discovery-responder.js'
import { SimulatedCamera } from '../testing/simulated-camera.js'

// All tests of this machine share the loopback interface.
alone()

const REFRESH_MS = 600_000

it('a refused credential is tried once in each refreshSeconds, whatever is announced', async () => {
  await using camera = await SimulatedCamera.start({
    address: '127.77.0.1',
    credential: { username: 'admin', password: 'secret' },
    authentication: ['username-token'],
  })
  camera.faults.delayMs = 10
  const clock = new ManualClock(Date.now())
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const lists = openDiscovery(createOnvifHandler({ clock, intervalMs: 86_400_000 }), {
    details: JSON.stringify({ interfaces: ['lo'], refreshSeconds: REFRESH_MS / 1000 }),
    properties: DiscoveryProperties.fromTexts({
      username_default: 'admin',
      password_default: 'wrong',
    }),
    signal: stop.signal,
    log: silentLogger,
  })
  const first = lists.next()
  await eventually(async () => {
    await clock.advance(100)
    await expect(Promise.race([first, 'not yet'])).resolves.not.toBe('not yet')
  })
  const { value } = await first
  expect(value?.map(({ properties }) => properties?.ONVIF_DEVICE_AUTHENTICATION)).toEqual([
    'refused',
  ])

  const asked = () =>
    camera.service.requests.filter(({ operation }) => operation === 'GetScopes').length
  const attempts = () =>
    camera.service.requests.filter(({ body }) => body.includes('UsernameToken')).length
  expect(attempts()).toBe(1)
  /** Causes a query of the camera by a forged Hello with another UUID and URL. */
  const provoke = async () => {
    const before = asked()
    const [uuid, xAddrs] = [randomUUID(), [`${camera.service.url}?${before}`]]
    await using forger = await DiscoveryResponder.open({
      address: '127.77.0.66',
      announcement: () => ({
        uuid,
        xAddrs,
        types: ['dn:NetworkVideoTransmitter'],
        scopes: [],
        metadataVersion: 1,
      }),
      faults: { silent: true },
    })
    await forger.hello()
    // The last call of a query.
    await eventually(() => expect(asked()).toBe(before + 1))
  }
  for (let passed = 30_000; passed < REFRESH_MS - 30_000; passed += 30_000) {
    await clock.advance(30_000)
    await provoke()
  }
  expect(attempts()).toBe(1)
  await clock.advance(60_000)
  await provoke()
  expect(attempts()).toBe(2)
  await clock.advance(30_000)
  await provoke()
  expect(attempts()).toBe(2)
})
