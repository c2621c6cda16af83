import {
  API_VERSION,
  type ConfigurationName,
  type Instance,
  type InstanceName,
  MAX_RESOURCE_NAME,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import type { DeviceSet } from '../discovery/device-set.js'
import { collidingIds } from '../testing/colliding-ids.js'
import { checked, configurationWith, instanceWith } from '../testing/objects.js'
import { deviceIdAnnotation } from './existing-instances.js'
import { type DigestLength, deviceDigest } from './instance-name.js'
import { type InstancePlanInput, planInstances } from './instance-plan.js'

const node = 'node-a' as NodeName
const configuration = configurationWith()

function found(ids: readonly string[], { shared = true, complete = true } = {}): DeviceSet {
  return {
    complete,
    leftOut: undefined,
    devices: new Map(
      ids.map((id) => [id, { device: checked({ id }), shared, healthy: true, endpoint: 'e' }]),
    ),
  }
}

interface Made {
  length?: DigestLength
  nodes?: string[]
  usage?: string
  shared?: boolean
  annotated?: boolean
}

/** The Instance of a device. */
function instance(
  id: string,
  { length = 'short', nodes = [node], usage = '', shared = true, annotated = true }: Made = {},
): Instance {
  const place = shared
    ? ({ shared } as const)
    : ({ shared, node: (nodes[0] ?? node) as NodeName } as const)
  const name = `lab-${deviceDigest(id, place, length)}` as InstanceName
  return instanceWith(
    { [`${name}-0`]: usage },
    { configurationName: configuration.metadata.name, nodes: nodes as NodeName[], shared },
    {
      name,
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'Configuration', name: 'lab', uid: 'u1' }],
      ...(annotated && { annotations: deviceIdAnnotation(id) }),
    },
  )
}

async function plan(
  devices: DeviceSet,
  instances: readonly Instance[] = [],
  input: Partial<InstancePlanInput> = {},
) {
  const takenNames = new Map()
  const plan = await planInstances({
    ...{ configuration, takenNames, node, devices, instances },
    ...input,
  })
  const served = [...plan.served.values()]
  return {
    served: Object.fromEntries(served.map(({ device, name }) => [device.id, name])),
    existing: served.flatMap(({ existing }) => existing ?? []),
    leave: [...plan.left.keys()],
    collisions: plan.collisions,
  }
}

const [first, second] = collidingIds()
const short = `lab-${deviceDigest(first, { shared: true })}`
const long = (id: string) => `lab-${deviceDigest(id, { shared: true }, 'long')}`

describe('the name of a device whose short digest another device has too', () => {
  it('is short for the first id, and long for the others, in any order of the list', async () => {
    const ids = ['camera-16258', 'camera-26847', 'camera-60728']
    for (const order of [ids, ids.toReversed()])
      expect(await plan(found(order))).toEqual({
        served: {
          'camera-16258': 'lab-9a007d',
          'camera-26847': long('camera-26847'),
          'camera-60728': long('camera-60728'),
        },
        existing: [],
        leave: [],
        collisions: [],
      })
    expect(long('camera-26847')).toMatch(/^lab-[0-9a-f]{16}$/)
  })

  it.each([
    [first, second],
    [second, first],
  ])('is short for the device of the present Instance: %s', async (holder, other) => {
    const present = instance(holder, { nodes: ['node-b'] })
    expect(await plan(found([first, second]), [present])).toMatchObject({
      served: { [holder]: short, [other]: long(other) },
      existing: [present],
    })
    // The other device may still be there on the other node.
    expect(await plan(found([other]), [present])).toMatchObject({
      served: { [other]: long(other) },
      leave: [],
    })
  })

  it('stays long while its Instance exists, also if the short name is free', async () => {
    const present = instance(first, { length: 'long' })
    expect(await plan(found([first, second]), [present])).toMatchObject({
      served: { [first]: long(first), [second]: short },
      existing: [present],
      leave: [],
    })
    expect(await plan(found([first]), [present])).toMatchObject({
      served: { [first]: long(first) },
    })
  })

  it('is not the name of a device that is gone, whose Instance this node leaves', async () => {
    const stale = instance(first)
    expect(await plan(found([second]), [stale])).toMatchObject({
      served: { [second]: long(second) },
      leave: [short],
    })
    // Also while the other device has an Instance from before its handler was shared.
    for (const more of [[], [instance(second, { shared: false })]])
      expect(await plan(found([second], { complete: false }), [stale, ...more])).toMatchObject({
        served: { [second]: long(second) },
        leave: [],
      })
  })

  it('is short for the first device if another implementation wrote the Instance', async () => {
    const present = instance(second, { annotated: false })
    expect(await plan(found([first, second]), [present])).toMatchObject({
      served: { [first]: short, [second]: long(second) },
      leave: [],
    })
  })

  it('is kept by the served device, and by used slots, without the Instances', async () => {
    const memory = {
      deviceOf: (name: InstanceName) => (name === short ? second : undefined),
      longInUse: new Set<InstanceName>(),
    }
    expect(await plan(found([first, second]), [], { memory })).toMatchObject({
      served: { [first]: long(first), [second]: short },
    })
    const used = { deviceOf: () => undefined, longInUse: new Set([long(first) as InstanceName]) }
    for (const instances of [[], [instance(first, { nodes: ['node-b'] })]])
      expect(await plan(found([first]), instances, { memory: used })).toMatchObject({
        served: { [first]: long(first) },
      })
  })

  it('differs between local devices of two nodes, also if they have one id', async () => {
    const elsewhere = instance('foo', { nodes: ['node-b'], shared: false })
    const digest = deviceDigest('foo', { shared: false, node })
    const held = { ...elsewhere, metadata: { ...elsewhere.metadata, name: `lab-${digest}` } }
    const mine = deviceDigest('foo', { shared: false, node }, 'long')
    expect(await plan(found(['foo'], { shared: false }), [held as Instance])).toMatchObject({
      served: { foo: `lab-${mine}` },
      existing: [],
      leave: [],
    })
  })

  describe('with two Instances of one device, which two nodes made at the same moment', () => {
    const both = (short: string, long: string) => [
      instance(second, { usage: short }),
      instance(second, { length: 'long', usage: long }),
    ]

    it.each([
      ['without claims', '', '', 'long'],
      ['with claims in both', 'node-b', 'node-b', 'long'],
      ['with claims by the long name', '', 'node-b', 'long'],
      ['with claims by the short name', 'node-b', '', 'short'],
    ])('%s, all nodes keep one and leave the other', async (_, inShort, inLong, kept) => {
      for (const complete of [true, false]) {
        const { served, leave } = await plan(found([second], { complete }), both(inShort, inLong))
        expect(served).toEqual({ [second]: kept === 'long' ? long(second) : short })
        expect(leave).toEqual([kept === 'long' ? short : long(second)])
      }
    })

    it('a node does not leave an Instance while its own containers have claims there', async () => {
      const { served, leave } = await plan(found([second]), both(node, 'node-b'))
      expect(served).toEqual({ [second]: long(second) })
      expect(leave).toEqual([])
    })
  })

  it('is no name if it is too long for a resource, or if another device has it', async () => {
    const name = 'l'.repeat(MAX_RESOURCE_NAME - 16) as ConfigurationName
    const named = configurationWith({}, { name })
    const digest = deviceDigest(first, { shared: true })
    const collisions = [{ digest, kept: first, refused: second }]
    expect(await plan(found([first, second]), [], { configuration: named })).toMatchObject({
      served: { [first]: `${name}-${digest}` },
      collisions,
    })
    const fits = configurationWith({}, { name: name.slice(1) as ConfigurationName })
    expect((await plan(found([first, second]), [], { configuration: fits })).collisions).toEqual([])

    const held = instance(second, { length: 'long', nodes: ['node-b'] })
    const annotations = deviceIdAnnotation('another')
    expect(
      await plan(found([first, second]), [
        { ...held, metadata: { ...held.metadata, annotations } },
      ]),
    ).toMatchObject({
      served: { [first]: short },
      collisions: [{ digest: long(second).slice(4), kept: 'another', refused: second }],
    })
  })

  it('is one name for each of two ids with one printable text', async () => {
    const ids = ['a\u0001', 'a\u0002']
    const { served } = await plan(
      found(ids),
      ids.map((id) => instance(id)),
    )
    expect(new Set(Object.values(served)).size).toBe(2)
    expect(Object.keys(served)).toEqual(ids)
  })
})

it('each of 10,000 devices has an Instance of its own', async () => {
  // Two pairs of these have one short digest each.
  const ids = Array.from({ length: 10_000 }, (_, n) => `camera-${n + 2000}`)
  const { served, collisions } = await plan(found(ids))
  const names = Object.values(served)
  expect(new Set(names).size).toBe(ids.length)
  expect(collisions).toEqual([])
  expect(names.filter((name) => name.length === long('').length)).toHaveLength(2)
})
