import { keyOf, type NodeName } from '@akrijs/kube'
import { describe, expect, it } from 'vitest'
import { testInstance, testPod } from '../testing/objects.js'
import { BrokerSuccessions } from './broker-successions.js'

describe('what a broker leaves to its successor', () => {
  const nodes = ['a', 'b', 'c'] as [NodeName, NodeName, NodeName]
  const [first, second, third] = nodes
  const instance = testInstance(nodes, { capacity: 2 })
  const key = keyOf(instance)
  const left = (successions: BrokerSuccessions) => nodes.map((node) => successions.of(key, node))

  it('goes to the next broker of its node, or else of another node', () => {
    const successions = new BrokerSuccessions()
    expect(left(successions)).toEqual([undefined, undefined, undefined])
    successions.leave(key, first, 'broken')
    successions.leave(key, second, 'working')
    expect(left(successions)).toEqual(['broken', 'working', 'working'])
    successions.take(key, third)
    expect(left(successions)).toEqual(['broken', 'broken', 'broken'])
    successions.take(key, first)
    expect(left(successions)).toEqual([undefined, undefined, undefined])
    successions.take(key, first)
  })

  it('counts absent brokers as deleted in a roll-out at the first sight of the Instance', () => {
    const met = (pods: Parameters<BrokerSuccessions['meet']>[1], hadBrokers = true) => {
      const successions = new BrokerSuccessions()
      successions.meet(instance, pods, hadBrokers)
      return left(successions)[2]
    }
    expect(met([testPod('a')])).toBe('working')
    expect(met([testPod('a'), testPod('b', { leaves: true })])).toBe('working')
    expect(met([testPod('a'), testPod('b')])).toBeUndefined()
    expect(met([], false)).toBeUndefined()
    const successions = new BrokerSuccessions()
    successions.meet(instance, [testPod('a')], true)
    // One is absent, and the next one is not.
    successions.take(key, second)
    successions.meet(instance, [testPod('a')], true)
    expect(left(successions)).toEqual([undefined, undefined, undefined])
  })
})
