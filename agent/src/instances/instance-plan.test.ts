import { API_VERSION, type ConfigurationName, type Instance, type InstanceName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import { checked, configurationWith, instanceWith } from '../testing/objects.js'
import { DEVICE_ID_ANNOTATION, deviceIdAnnotation, isOwnedBy } from './existing-instances.js'
import { deviceDigest } from './instance-name.js'
import { type InstancePlanInput, planInstances, presentInstances } from './instance-plan.js'

const node = 'node-a' as NodeName
const configuration = configurationWith({
  handler: 'debugEcho',
  capacity: 2,
  brokerProperties: { SITE: 'north', A: 'of the configuration' },
})

function found(
  ...devices: (Pick<DiscoveredDevice['device'], 'id' | 'properties'> & {
    shared?: boolean
    healthy?: boolean
  })[]
): DeviceSet {
  return {
    complete: true,
    leftOut: undefined,
    devices: new Map(
      devices.map(({ shared = true, healthy = true, ...device }) => [
        device.id,
        { device: checked(device), shared, healthy, endpoint: 'embedded-debugEcho' },
      ]),
    ),
  }
}

function instance(
  deviceId: string | undefined,
  nodes: string[],
  name = `lab-${deviceDigest(deviceId ?? 'foo0', { shared: true })}`,
): Instance {
  return instanceWith(
    {},
    { configurationName: configuration.metadata.name, nodes: nodes as NodeName[] },
    {
      name: name as InstanceName,
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'Configuration', name: 'lab', uid: 'u1' }],
      ...(deviceId === undefined ? {} : { annotations: { [DEVICE_ID_ANNOTATION]: deviceId } }),
    },
  )
}

async function plan(
  devices: DeviceSet,
  instances: readonly Instance[] = [],
  input: Partial<InstancePlanInput> = {},
) {
  const takenNames = new Map()
  const { served, left, collisions, taken } = await planInstances({
    ...{ configuration, takenNames, node, devices, instances },
    ...input,
  })
  return { served: [...served.values()], leave: [...left.values()], collisions, taken }
}

describe('the plan of the Instances of a Configuration', () => {
  it('makes no Instance with the name of an older Configuration, and leaves one', async () => {
    const older = configurationWith({}, { name: 'lab-8120fe' as ConfigurationName, uid: 'u0' })
    const { served, leave, taken } = await plan(
      found({ id: 'foo0' }, { id: 'foo1' }),
      [instance('foo0', ['node-a', 'node-b'])],
      { takenNames: new Map([['lab-8120fe', older]]) },
    )
    expect(served.map(({ name }) => name)).toEqual(['lab-a19705'])
    expect(leave.map(({ instance: { metadata } }) => metadata.name)).toEqual(['lab-8120fe'])
    expect(taken).toEqual([{ device: 'foo0', owner: 'default/lab-8120fe' }])
  })

  it('R60 R98 has an Instance for each device; properties of the Configuration win', async () => {
    const { served, leave } = await plan(
      found({ id: 'foo0', properties: { A: 'of the device', B: 'b' } }, { id: 'foo1' }),
    )
    expect(served.map(({ name }) => name)).toEqual(['lab-8120fe', 'lab-a19705'])
    expect(served[0]?.properties).toEqual({ A: 'of the configuration', B: 'b', SITE: 'north' })
    expect(leave).toEqual([])
  })

  it('R3 names a local device after its node too', async () => {
    const { served } = await plan(found({ id: 'foo0', shared: false }))
    expect(served[0]?.name).toBe('lab-fbcb99')
  })

  it('leaves the Instance of a device that is not in a complete set', async () => {
    const gone = instance('foo1', ['node-a', 'node-b'])
    expect((await plan(found({ id: 'foo0' }), [gone])).leave).toEqual([
      { instance: gone, device: 'gone' },
    ])
  })

  it('A2 leaves no Instance while the set is incomplete', async () => {
    const devices = { ...found(), complete: false }
    expect((await plan(devices, [instance('foo0', ['node-a'])])).leave).toEqual([])
  })

  it('ignores Instances without this node, or of an earlier Configuration', async () => {
    const former = instance('foo1', ['node-a'])
    const elsewhere = instance('foo0', ['node-b'])
    const owned = {
      ...former,
      metadata: {
        ...former.metadata,
        ownerReferences: [{ apiVersion: '', kind: 'Configuration', name: 'lab', uid: 'u0' }],
      },
    }
    expect((await plan(found(), [elsewhere, owned])).leave).toEqual([])
  })

  it.each([
    ['in another namespace', { namespace: 'other' }, {}],
    ['of another group', {}, { apiVersion: 'akri.example/v0' }],
    ['of another kind', {}, { kind: 'Camera' }],
    ['of another name', {}, { name: 'other' }],
  ])('ignores an Instance with a forged owner reference %s', async (_what, metadata, reference) => {
    const own = instance('foo0', ['node-a', 'node-b'])
    const [owner] = own.metadata.ownerReferences ?? []
    const forged = {
      ...own,
      metadata: {
        ...own.metadata,
        ...metadata,
        ownerReferences: [{ ...(owner ?? expect.fail()), ...reference }],
      },
    }
    expect(isOwnedBy(own, configuration)).toBe(true)
    expect(isOwnedBy(forged, configuration)).toBe(false)
    const { served, leave } = await plan(found({ id: 'foo0' }), [forged])
    expect(served.map(({ existing }) => existing)).toEqual([undefined])
    expect(leave).toEqual([])
  })

  it('takes over an Instance without device id, of another implementation, by name', async () => {
    const other = instance(undefined, ['node-b'], 'lab-8120fe')
    const { served, collisions } = await plan(found({ id: 'foo0' }), [other])
    expect(served[0]?.existing).toBe(other)
    expect(collisions).toEqual([])
  })

  it('R3 knows the Instance of an id with control characters again, by its digest', async () => {
    const id = 'camera\u001b[2J\ud800\n'
    const digest = deviceDigest(id, { shared: true })
    expect(deviceIdAnnotation(id)).toEqual({
      [DEVICE_ID_ANNOTATION]: 'camera\ufffd[2J\ufffd\ufffd',
    })
    // As this agent writes it, and as an API server keeps what an earlier agent wrote.
    for (const annotation of [deviceIdAnnotation(id)[DEVICE_ID_ANNOTATION], id]) {
      const existing = instance(annotation, ['node-a'], `lab-${digest}`)
      const { served, leave, collisions } = await plan(found({ id }), [existing])
      expect(served.map(({ name, existing }) => [name, existing])).toEqual([
        [`lab-${digest}`, existing],
      ])
      expect([leave, collisions]).toEqual([[], []])
    }
  })

  it('depends on the claims of a device with a long name, and of no other device', async () => {
    const claimed = async (...instances: Instance[]) => {
      const takenNames = new Map()
      const devices = found({ id: 'foo0' }, { id: 'foo1' })
      const input = { configuration, takenNames, node, devices, instances }
      return [...(await planInstances(input)).claimed].sort()
    }
    const [first, other] = [instance('foo0', ['node-a']), instance('foo1', ['node-a'])]
    const name = `lab-${deviceDigest('foo0', { shared: true }, 'long')}`
    expect(await claimed(first, other)).toEqual([])
    expect(await claimed(first, other, instance('foo0', [], name))).toEqual(
      [first.metadata.name, name].sort(),
    )
  })

  it.each<[string, string, boolean, string[], boolean]>([
    ['a shared Instance of its device before the node has joined', 'x', true, ['node-b'], true],
    ['no Instance of another device', 'y', true, ['node-a'], false],
    ['no Instance of a device of another node', 'x', false, ['node-b'], false],
    ['the Instance of a device of its own', 'x', false, ['node-a'], true],
  ])('counts %s', async (_, text, shared, nodes, isPresent) => {
    const place = shared ? ({ shared } as const) : ({ shared, node } as const)
    const made = instance(text, nodes, `lab-${deviceDigest('x', place)}`)
    const present = { ...made, spec: { ...made.spec, shared } }
    const devices = found({ id: 'x', shared })
    const input = { configuration, takenNames: new Map(), node, devices, instances: [present] }
    const { served } = await planInstances(input)
    const instances = { get: (key: ObjectKey) => (key === keyOf(present) ? present : undefined) }
    const counted = presentInstances(served, { configuration, instances, node })
    expect(counted).toEqual(isPresent ? [present] : [])
  })
})
