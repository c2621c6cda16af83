import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { expect, it, onTestFinished } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { eventually } from '../../../../test/support/eventually.js'
import { createOnvifHandler } from '../index.js'
import { DeviceService } from '../testing/device-service.js'
import { SimulatedCamera } from '../testing/simulated-camera.js'

// All tests of this machine share the loopback interface.
alone()

const IP = '127.77.0.1'

/** The ids in the first list of a node. */
async function idsOfNode({ uuid }: SimulatedCamera): Promise<string[]> {
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const lists = openDiscovery(createOnvifHandler({ intervalMs: 1000 }), {
    details: JSON.stringify({ interfaces: ['lo'], uuids: { items: [uuid] } }),
    properties: DiscoveryProperties.fromTexts({}),
    signal: stop.signal,
    log: silentLogger,
  })
  const { value } = await lists.next()
  return (value ?? []).map(({ id }) => id)
}

it('a camera with several URLs has one id on all nodes, also after a lost request', async () => {
  await using first = await DeviceService.start({ address: IP })
  await using second = await DeviceService.start({ address: IP })
  await using camera = await SimulatedCamera.start({ address: IP, xAddrs: [first.url, second.url] })
  first.misbehave('silence')
  const unlucky = idsOfNode(camera)
  await eventually(() => expect(first.requests).toHaveLength(1))
  first.misbehave(undefined)
  const id = `${first.url}-${camera.uuid}`
  expect(await unlucky).toEqual([id])
  // The camera had answered at the other URL before.
  expect(second.requests.length).toBeGreaterThan(0)
  expect(await idsOfNode(camera)).toEqual([id])
})
