import { type NodeName, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import { ClusterBusyError } from '../errors.js'
import { instanceWith } from '../testing/objects.js'
import { compareAndSwap } from './compare-and-swap.js'
import { WatchedInstances } from './watched-instances.js'

const PATH = '/apis/akri.sh/v0/namespaces/default/instances/cam-8120fe'

it('a change waits longer for each faster writer, at random, and then fails', async () => {
  const clock = new ManualClock()
  const api = new FakeApiServer(clock)
  const instances = new WatchedInstances({
    ...{ client: api.client(), clock, log: silentLogger, onError: () => {} },
    ...{ node: 'node-a' as NodeName, path: '/apis/akri.sh/v0/instances', answerMs: 10_000 },
  })
  const options = { instances, clock, random: () => 0.5 }
  const instance = instanceWith({}, {}, { labels: { 'akri.sh/shared': 'true' } })
  const otherWriter = () => api.put(PATH, { ...instance })
  otherWriter()
  api.before = ({ method }) => method === 'PATCH' && otherWriter()
  const change = compareAndSwap(options, objectKey('default', 'cam-8120fe'), (now) => {
    const value = now?.metadata.resourceVersion ?? ''
    return { patch: [{ op: 'test', path: '/metadata/resourceVersion', value }], result: 'changed' }
  })
  const failed = expect(change).rejects.toThrow(ClusterBusyError)
  const waits: number[] = []
  while (waits.length < 28) {
    await clock.untilSleeping()
    waits.push(...clock.sleeping)
    await clock.advance(clock.sleeping[0] ?? expect.fail())
  }
  await failed
  expect(waits).toEqual([20, 40, 80, 160, 320, ...Array.from({ length: 23 }, () => 500)])
})
