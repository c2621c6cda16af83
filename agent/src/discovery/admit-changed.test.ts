import { expect, it } from 'vitest'
import type { HashedDevice } from '../handlers/handler-endpoint.js'
import { checked } from '../testing/objects.js'
import { admitChanged } from './admit-changed.js'

const device = (id: string, property = '') => checked({ id, properties: { A: property } })
const spec = { containerPath: '/dev/a', hostPath: '/dev/a', permissions: 'r' }
const withNode = (permissions = 'r') =>
  checked({ id: 'node', properties: { A: '' }, deviceSpecs: [{ ...spec, permissions }] })

/** Counts the devices, and admits all but those with the id "refused". */
function counter() {
  const admitted: string[] = []
  const admit = async (devices: readonly HashedDevice[]) =>
    devices.map((each) => {
      admitted.push(each.id)
      if (each.id !== 'refused') return each
      const { id, hash } = each
      return { id, hash, properties: {}, reported: each, refusal: 'why' }
    })
  return { admitted, admit }
}

it('admits the devices that have changed, and keeps the objects of all others', async () => {
  const { admitted, admit } = counter()
  const list = ['same', 'changed', 'refused', 'gone'].map((id) => device(id))
  const { devices: before } = await admitChanged(undefined, [...list, withNode()], admit)
  admitted.length = 0

  const now = [device('new'), device('changed', 'x'), device('refused'), device('same'), withNode()]
  const { devices, changed } = await admitChanged(before, now, admit)
  expect(devices).toEqual(await counter().admit(now))
  // The kernel may name other device nodes by now.
  expect(admitted).toEqual(['new', 'changed', 'node'])
  const isKept = devices.map((each) => before.includes(each))
  expect(isKept).toEqual([false, false, true, true, true])
  expect(changed).toBe(2 + 2)
})

it('takes over another decision about a device node', async () => {
  const node = withNode()
  const { devices: before } = await admitChanged(undefined, [node], counter().admit)
  const { id, hash } = node
  const refused = { id, hash, deviceSpecs: [], reported: node, refusal: 'no such node' }
  const { devices: away } = await admitChanged(before, [withNode()], async () => [refused])
  expect(away).toEqual([refused])
  const { devices: back } = await admitChanged(away, [withNode()], counter().admit)
  expect(back).toEqual([node])
})
