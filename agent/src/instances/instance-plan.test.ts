import {
  type ConfigurationName,
  type Instance,
  type InstanceName,
  MAX_RESOURCE_NAME,
} from '@akrijs/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import {
  COLLIDING,
  configurationWith,
  found,
  instanceOfDevice,
  type Made,
  NODE,
  seen,
  setOf,
} from '../testing/objects.js'
import { DEVICE_ID_ANNOTATION, deviceIdAnnotation, isOwnedBy } from './existing-instances.js'
import { InstanceIndex } from './instance-index.js'
import { DeviceDigests, deviceDigest } from './instance-name.js'
import {
  type InstancePlan,
  type InstancePlanInput,
  planInstances,
  takeDevices,
  updatePlan,
} from './instance-plan.js'
import { instancesView } from './instances-view.js'

const configuration = configurationWith()
const shared = { shared: true } as const

function indexOf(instances: readonly Instance[]): InstanceIndex {
  const store = new ObjectStore<Instance>()
  for (const instance of instances) store.put(instance)
  return new InstanceIndex(store, NODE, new AbortController().signal)
}

/** For a node that has forgotten everything. */
function inputOf(
  devices: DeviceSet,
  instances: readonly Instance[],
  of = configuration,
): InstancePlanInput {
  return {
    ...{
      configuration: of,
      takenNames: new Map(),
      node: NODE,
      devices,
      instances: indexOf(instances),
    },
    ...{ deviceOf: () => undefined, longInUse: new Set() },
    digests: new DeviceDigests(of.metadata.name, NODE),
  }
}

/** The plan, with the served names by device and the names of Instances to leave. */
async function plan(
  devices: DeviceSet,
  instances: readonly Instance[] = [],
  input: Partial<InstancePlanInput> = {},
) {
  const all = inputOf(devices, instances, input.configuration)
  const made = await planInstances({ ...all, ...input })
  const { served, left, collisions } = made
  const each = [...served.values()]
  return {
    ...{ collisions, present: instancesView(made, []).present },
    served: Object.fromEntries(each.map(({ device, name }) => [device.id, name])),
    existing: each.flatMap(({ existing }) => existing ?? []),
    leave: [...left.keys()],
    left: [...left.values()],
  }
}

describe('the plan of the Instances of a Configuration', () => {
  it('R3 names a local device after its node too', async () => {
    const { served } = await plan(setOf(found({ id: 'foo0' }, { shared: false })))
    expect(served).toEqual({ foo0: 'lab-fbcb99' })
  })

  it('A2 leaves the Instance of a device that is not in a complete set', async () => {
    const instance = instanceOfDevice('foo1', { nodes: ['node-a', 'node-b'] })
    expect((await plan(seen('foo0'), [instance])).left).toEqual([{ instance, device: 'gone' }])
    expect((await plan({ ...seen(), complete: false }, [instance])).left).toEqual([])
    const elsewhere = instanceOfDevice('foo1', { nodes: ['node-b'] })
    expect((await plan(seen(), [elsewhere])).left).toEqual([])
  })

  it.each([
    ['in another namespace', { namespace: 'other' }, {}],
    ['of another group', {}, { apiVersion: 'akri.example/v0' }],
    ['of another kind', {}, { kind: 'Camera' }],
    ['of another name', {}, { name: 'other' }],
    ['of an earlier Configuration', {}, { uid: 'u0' }],
  ])('ignores an Instance whose owner reference is %s', async (_what, metadata, reference) => {
    const own = instanceOfDevice('foo0')
    const [owner = expect.fail()] = own.metadata.ownerReferences ?? []
    const ownerReferences = [{ ...owner, ...reference }]
    const forged = instanceOfDevice('foo0', { metadata: { ...metadata, ownerReferences } })
    expect([own, forged].map((each) => isOwnedBy(each, configuration))).toEqual([true, false])
    expect(await plan(seen('foo0'), [forged])).toMatchObject({ existing: [], leave: [] })
  })

  it('takes over an Instance without device id, of another implementation, by name', async () => {
    const other = instanceOfDevice('foo0', { nodes: ['node-b'], isAnnotated: false })
    const { existing, collisions, present } = await plan(seen('foo0'), [other])
    // It counts before this node has joined.
    expect([existing, collisions, present]).toEqual([[other], [], 1])
  })

  it('R3 knows the Instance of an id with control characters again, by its digest', async () => {
    const id = 'camera\u001b[2J\ud800\n'
    const text = 'camera\ufffd[2J\ufffd\ufffd'
    expect(deviceIdAnnotation(id)).toEqual({ [DEVICE_ID_ANNOTATION]: text })
    // As this agent writes it, and as an API server keeps what an earlier agent wrote.
    for (const annotation of [text, id]) {
      const annotations = { [DEVICE_ID_ANNOTATION]: annotation }
      const present = instanceOfDevice(id, { metadata: { annotations } })
      expect(await plan(setOf(found({ id })), [present])).toMatchObject({
        served: { [id]: `lab-${deviceDigest(id, shared)}` },
        ...{ existing: [present], leave: [], collisions: [] },
      })
    }
    const twins = ['a\u0001', 'a\u0002']
    const present = twins.map((each) => instanceOfDevice(each))
    expect((await plan(seen(...twins), present)).existing).toEqual(present)
  })
})

const [first, second, third] = COLLIDING
const IDS: Readonly<Record<string, string>> = { a: first, b: second }
const idOf = (letter: string) => IDS[letter] ?? expect.fail(letter)
const short = `lab-${deviceDigest(first, shared)}`
const long = (id: string) => `lab-${deviceDigest(id, shared, 'long')}`

/** An Instance of the device `a` or `b`, which have one short digest. */
type Present = [letter: string, made?: Made]

/** How these devices are named beside the Instances, and which of the Instances are left. */
async function namesOf(
  letters: string,
  present: readonly Present[],
  { isComplete = true, ...input }: Partial<InstancePlanInput> & { isComplete?: boolean } = {},
): Promise<string> {
  const ids = [...letters].map(idOf)
  const instances = present.map(([letter, made]) => instanceOfDevice(idOf(letter), made))
  const devices = { ...seen(...ids), complete: isComplete }
  const { served, leave } = await plan(devices, instances, input)
  const word = (name: string | undefined, id: string) =>
    ({ [short]: 'short', [long(id)]: 'long' })[name ?? '']
  const named = ids.map((id, at) => `${letters[at]} ${word(served[id], id)}`)
  return [...named, ...leave.map((name) => `leaves ${word(name, second)}`)].join(', ')
}

describe('the name of a device whose short digest another device has too', () => {
  it('is short for the first id, and long for the others, in any order of the list', async () => {
    const served = { [first]: 'lab-9a007d', [second]: long(second), [third]: long(third) }
    for (const order of [COLLIDING, COLLIDING.toReversed()])
      expect(await plan(seen(...order))).toMatchObject({ served, leave: [], collisions: [] })
    expect(long(second)).toMatch(/^lab-[0-9a-f]{16}$/)
  })

  const elsewhere = { nodes: ['node-b'] }
  it.each<[string, letters: string, Present, string]>([
    ['is short for the device of the Instance', 'ab', ['a', elsewhere], 'a short, b long'],
    ['is short for the device of the Instance', 'ab', ['b', elsewhere], 'a long, b short'],
    // The other device may still be there on the other node.
    ['is long while another node has the Instance', 'b', ['a', elsewhere], 'b long'],
    ['is long while another node has the Instance', 'a', ['b', elsewhere], 'a long'],
    ['stays long if the short name is free', 'ab', ['a', { length: 'long' }], 'a long, b short'],
    ['stays long without the other', 'a', ['a', { length: 'long' }], 'a long'],
    ['is not that of a gone device', 'b', ['a'], 'b long, leaves short'],
    // Another implementation wrote the Instance.
    ['is short for the first device', 'ab', ['b', { isAnnotated: false }], 'a short, b long'],
  ])('%s (%s)', async (_, letters, present, expected) => {
    expect(await namesOf(letters, [present])).toBe(expected)
    expect(await namesOf(letters, [present], { isComplete: false })).not.toContain('leaves')
  })

  it('is not that of a device that may be gone, if the other has a name from before', async () => {
    const stale: Present[] = [['a'], ['b', { shared: false }]]
    expect(await namesOf('b', stale, { isComplete: false })).toBe('b long')
  })

  it('is kept by the served device, and by used slots, without the Instances', async () => {
    const deviceOf = (name: InstanceName) => (name === short ? second : undefined)
    expect(await namesOf('ab', [], { deviceOf })).toBe('a long, b short')
    const longInUse = new Set([long(first) as InstanceName])
    for (const present of [[], [['a', elsewhere] satisfies Present]])
      expect(await namesOf('a', present, { longInUse })).toBe('a long')
  })

  it('differs between local devices of two nodes, also if they have one id', async () => {
    const name = `lab-${deviceDigest('foo', { shared: false, node: NODE })}` as InstanceName
    const held = instanceOfDevice('foo', { shared: false, ...elsewhere, metadata: { name } })
    expect(await plan(setOf(found({ id: 'foo' }, { shared: false })), [held])).toMatchObject({
      served: { foo: `lab-${deviceDigest('foo', { shared: false, node: NODE }, 'long')}` },
      ...{ existing: [], leave: [] },
    })
  })

  it.each([
    ['without claims', '', '', 'b long, leaves short'],
    ['with claims in both', 'node-b', 'node-b', 'b long, leaves short'],
    ['with claims by the long name', '', 'node-b', 'b long, leaves short'],
    ['with claims by the short name', 'node-b', '', 'b short, leaves long'],
    // Its own containers have claims there.
    ['with claims of this node by the short name', 'node-a', 'node-b', 'b long'],
  ])('of two that two nodes made at once, %s, is one for all', async (_, inShort, inLong, kept) => {
    const both: Present[] = [
      ['b', { usage: inShort }],
      ['b', { length: 'long', usage: inLong }],
    ]
    for (const isComplete of [true, false])
      expect(await namesOf('b', both, { isComplete })).toBe(kept)
  })

  it('is no name if it is too long for a resource, or if another device has it', async () => {
    const name = 'l'.repeat(MAX_RESOURCE_NAME - 16) as ConfigurationName
    const digest = deviceDigest(first, shared)
    const named = (text: string) =>
      plan(seen(first, second), [], {
        configuration: configurationWith({}, { name: text as ConfigurationName }),
      })
    expect(await named(name)).toMatchObject({
      served: { [first]: `${name}-${digest}` },
      collisions: [{ kept: first, refused: second }],
    })
    expect((await named(name.slice(1))).collisions).toEqual([])

    const annotations = deviceIdAnnotation('another')
    const held = instanceOfDevice(second, {
      length: 'long',
      ...elsewhere,
      metadata: { annotations },
    })
    expect(await plan(seen(first, second), [held])).toMatchObject({
      served: { [first]: short },
      collisions: [{ kept: 'another', refused: second }],
    })
  })
})

it('each of 10,000 devices has an Instance of its own', async () => {
  // Two pairs of these have one short digest each.
  const ids = Array.from({ length: 10_000 }, (_, n) => `camera-${n + 2000}`)
  const { served, collisions } = await plan(seen(...ids))
  const names = Object.values(served)
  expect([new Set(names).size, collisions]).toEqual([ids.length, []])
  expect(names.filter((name) => name.length === long('').length)).toHaveLength(2)
})

describe('the next plan', () => {
  const ids = [first, second, 'foo0'] as const
  const names = ids.flatMap((id) => (['short', 'long'] as const).map((length) => ({ id, length })))
  const place = fc.nat({ max: names.length - 1 })
  const device = fc.record({
    healthy: fc.boolean(),
    shared: fc.boolean(),
    properties: fc.constantFrom<Record<string, string>>({}, { A: '1' }),
  })
  const instance = fc.record({
    nodes: fc.constantFrom(['node-a'], ['node-b'], ['node-b', 'node-a']),
    usage: fc.constantFrom('', 'node-a', 'node-b'),
    metadata: fc.constantFrom(
      {},
      { deletionTimestamp: '2026-01-01T00:00:00Z' },
      { annotations: deviceIdAnnotation(second) },
    ),
  })
  const instanceChange: fc.Arbitrary<Change> = fc.record({
    place,
    instance: fc.option(instance, { freq: 2 }),
  })
  const change: fc.Arbitrary<Change> = fc.oneof(
    instanceChange,
    fc.record({ place, device: fc.option(device, { freq: 3 }) }),
    fc.record({ generation: fc.constantFrom(1, 2) }),
  )

  /** Devices and Instances that change one by one. */
  class World {
    readonly #devices = new Map<string, DiscoveredDevice>()
    readonly #instances = new Map<number, Instance>()
    #generation = 1

    change(by: Change): InstanceName | undefined {
      const { id, length } = names[by.place ?? 0] ?? expect.fail()
      this.#generation = by.generation ?? this.#generation
      this.#devices.delete(by.device === undefined ? '' : id)
      if (by.device)
        this.#devices.set(id, found({ id, properties: by.device.properties }, by.device))
      if (by.instance === undefined || by.place === undefined) return undefined
      const present = instanceOfDevice(id, { length, ...by.instance })
      if (by.instance === null) this.#instances.delete(by.place)
      else this.#instances.set(by.place, present)
      return present.metadata.name
    }

    input(last?: InstancePlan): InstancePlanInput {
      const of = configurationWith({}, { generation: this.#generation })
      return {
        ...inputOf(setOf(...this.#devices.values()), [...this.#instances.values()], of),
        deviceOf: (name) => last?.served.get(name)?.device.id,
      }
    }
  }

  it('takes over what has not changed, and is as a plan without one before', async () => {
    let updated = 0
    let taken = 0
    const digests = new DeviceDigests('lab' as ConfigurationName, NODE)
    // The claims of two Instances of one device decide which of them it keeps.
    const seenFirst = { place: 0, device: { healthy: true, shared: true, properties: {} } }
    const unused = { place: 0, instance: { nodes: ['node-a'], usage: '', metadata: {} } }
    const ofOther = { place: 2, instance: { ...unused.instance, nodes: ['node-b'] } }
    const usedByShort = { place: 0, instance: { ...unused.instance, usage: 'node-b' } }
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 12 }), async (changes) => {
        const world = new World()
        let before: InstancePlan | undefined
        let last: DeviceSet | undefined
        for (const each of changes) {
          const changed = world.change(each)
          const input = world.input(before)
          const isTaken = before && last && !changed && takeDevices(before, last, input)
          if (isTaken) taken++
          else if (before && changed && updatePlan(before, changed, input)) updated++
          else before = await planInstances({ ...input, digests, ...(before && { before }) })
          expect(before).toEqual(await planInstances(input))
          last = input.devices
        }
      }),
      {
        numRuns: 500,
        examples: [
          [[seenFirst, usedByShort, { ...unused, place: 1 }, unused]],
          // The short name waits for the other device.
          [[ofOther, seenFirst, { ...seenFirst, place: 2 }]],
        ],
      },
    )
    expect([updated, taken]).not.toContain(0)
  })
})

interface Change {
  readonly place?: number
  readonly device?: {
    readonly healthy: boolean
    readonly shared: boolean
    readonly properties: Record<string, string>
  } | null
  readonly instance?: object | null | undefined
  readonly generation?: number
}
