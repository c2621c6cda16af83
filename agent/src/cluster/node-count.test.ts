import type { Configuration, ConfigurationName, Instance, InstanceName } from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { configurationWith, instanceWith } from '../testing/objects.js'
import { NodeCount } from './node-count.js'
import { ObjectStore } from './object-store.js'

let clock: ManualClock
let instances: ObjectStore<Instance>
let configurations: ObjectStore<Configuration>
let count: NodeCount

beforeEach(() => {
  clock = new ManualClock(0)
  instances = new ObjectStore()
  configurations = new ObjectStore()
  count = new NodeCount({ clock, instances, configurations })
})

const configuration = (name: string) => configurationWith({}, { name: name as ConfigurationName })
/** As the watch shows it, before the cache has it. */
const see = (name: string, reporting: number) => {
  const seen = configuration(name)
  count.configurationSeen(keyOf(seen), reporting)
  configurations.put(seen)
}
const seeInstance = (name: string, nodes: number) => {
  const names = Array.from({ length: nodes }, (_, index) => `node-${index}` as NodeName)
  const instance = instanceWith({}, { nodes: names }, { name: name as InstanceName })
  count.instanceSeen(instance)
  instances.put(instance)
}

describe('the number of nodes that an agent knows', () => {
  it('is the most that one object shows, at once', () => {
    expect(count.most).toBe(1)
    see('a', 30)
    see('b', 20)
    expect(count.most).toBe(30)
    seeInstance('a-8120fe', 40)
    expect(count.most).toBe(40)
  })

  it('falls with the next count after nodes, Instances or Configurations are gone', async () => {
    see('a', 30)
    see('b', 20)
    seeInstance('a-8120fe', 40)
    seeInstance('a-8120fe', 25)
    await clock.advance(59_999)
    expect(count.most).toBe(40)
    await clock.advance(1)
    expect(count.most).toBe(30)
    see('a', 3)
    await clock.advance(60_000)
    expect(count.most).toBe(25)
    for (const instance of instances.list()) instances.remove(keyOf(instance))
    await clock.advance(60_000)
    expect(count.most).toBe(20)
    configurations.remove(keyOf(configuration('b')))
    await clock.advance(60_000)
    expect(count.most).toBe(3)
  })
})
