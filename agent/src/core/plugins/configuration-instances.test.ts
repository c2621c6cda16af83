import type { ConfigurationName, InstanceName } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { expect, it, vi } from 'vitest'
import { instanceWith } from '../../testing/objects.js'
import type { ServedInstance } from '../instances/served-instance.js'
import { advertisedIds } from '../slots/configuration-slots.js'
import { slotTable } from '../slots/slot-table.js'
import { ConfigurationInstances } from './configuration-instances.js'

const NODE = 'node-a' as NodeName
const COUNT = 10_000

const served = (index: number): ServedInstance => {
  const digest = index.toString(16).padStart(6, '0')
  const name = `cam-${digest}` as InstanceName
  return {
    key: objectKey('default', name),
    name,
    configuration: 'cam' as ConfigurationName,
    digest,
    device: { id: digest },
    properties: {},
    healthy: true,
    capacity: 1,
  }
}

const iteration = () => new Promise((resolve) => setImmediate(resolve))

it('makes the slots of thousands of Instances in turns with other work', async () => {
  let made = 0
  vi.spyOn(performance, 'now').mockImplementation(() => made * 0.1)
  const instances = new ConfigurationInstances((each) => {
    made++
    return slotTable(each, undefined)
  })
  for (let index = 0; index < COUNT; index++) instances.set(served(index))
  const updated = instances.update()
  for (let before = 0; made < COUNT; await iteration()) {
    expect(made - before).toBeLessThanOrEqual(101)
    before = made
  }
  await updated
  expect(instances.slots).toHaveLength(COUNT)
  expect(made).toBe(COUNT)
  vi.restoreAllMocks()
})

it('fails each list while the slots of an Instance cannot be made', async () => {
  const instances = new ConfigurationInstances(() => expect.fail('on purpose'))
  instances.set(served(0))
  await instances.update()
  for (let list = 0; list < 2; list++) expect(() => instances.slots).toThrow('on purpose')
})

it('makes the slots of one Instance for a change of one, and no list without a change', () => {
  const nodes = [NODE]
  const usages = new Map<InstanceName, Record<string, string>>()
  const instances = new ConfigurationInstances((each) => {
    const usage = usages.get(each.name) ?? {}
    usages.set(each.name, usage)
    return slotTable(each, instanceWith(usage, { capacity: 1, nodes }, { name: each.name }), usage)
  })
  for (let index = 0; index < COUNT; index++) instances.set(served(index))
  const before = instances.slots
  expect([before.length, instances.made]).toEqual([COUNT, COUNT])
  expect(advertisedIds(before, NODE)).toHaveLength(COUNT)

  const { name } = served(7)
  instances.changed(name)
  instances.changed('cam-ffffff' as InstanceName)
  expect(instances.slots).toBe(before)
  expect(instances.made).toBe(COUNT + 1)
  usages.set(name, { [`${name}-0`]: 'node-b' })
  instances.changed(name)
  expect(instances.slots).not.toBe(before)
  expect(instances.made).toBe(COUNT + 2)
  expect(advertisedIds(instances.slots, NODE)).toHaveLength(COUNT - 1)
  instances.delete(name)
  expect(instances.slots).toHaveLength(COUNT - 1)
  expect(instances.get(name)).toBeUndefined()
})
