import type { DeviceList } from '@akrijs/runtime/handler'
import { expect, it } from 'vitest'
import { admitChanged } from './admit-changed.js'

const device = (id: string, property = '') => ({
  id,
  properties: { A: property },
  mounts: [],
  deviceSpecs: [],
})
const spec = { containerPath: '/dev/a', hostPath: '/dev/a', permissions: 'r' }
const withNode = { ...device('node'), deviceSpecs: [spec] }

/** Counts the devices, and admits all but those with the id "refused". */
function counter() {
  const admitted: string[] = []
  const admit = async (devices: DeviceList) =>
    devices.map((each) => {
      admitted.push(each.id)
      if (each.id !== 'refused') return each
      return { ...each, properties: {}, reported: each, refusal: 'why' }
    })
  return { admitted, admit }
}

it('admits the devices that have changed, and keeps the objects of all others', async () => {
  const { admitted, admit } = counter()
  const list = ['same', 'changed', 'refused', 'gone'].map((id) => device(id))
  const { devices: before } = await admitChanged(undefined, [...list, withNode], admit)
  admitted.length = 0

  const now = [
    device('new'),
    device('changed', 'x'),
    device('refused'),
    device('same'),
    structuredClone(withNode),
  ]
  const { devices, ...entries } = await admitChanged(before, now, admit)
  expect(devices).toEqual(await counter().admit(now))
  // The kernel may name other device nodes by now.
  expect(admitted).toEqual(['new', 'changed', 'node'])
  const isKept = devices.map((each) => before.includes(each))
  expect(isKept).toEqual([false, false, true, true, true])
  expect(entries).toEqual({ sameEntries: 2 + 2 + 3, otherEntries: 2 + 2 })
})

it('keeps the objects of a list that has not changed, with one further device', async () => {
  const { admit } = counter()
  const list = [device('a'), withNode, device('b')]
  const { devices: before } = await admitChanged(undefined, list, admit)
  const { devices } = await admitChanged(before, structuredClone([...list, device('c')]), admit)
  expect(devices.map((each) => before.indexOf(each))).toEqual([0, 1, 2, -1])
})

it('takes over another decision about a device node', async () => {
  const { devices: before } = await admitChanged(undefined, [withNode], counter().admit)
  const refused = { ...withNode, deviceSpecs: [], reported: withNode, refusal: 'no such node' }
  const { devices: away } = await admitChanged(before, [withNode], async () => [refused])
  expect(away).toEqual([refused])
  const { devices: back } = await admitChanged(away, [withNode], counter().admit)
  expect(back).toEqual([withNode])
})
