import type { NodeName } from '@akrijs/kube'
import { silentLogger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestApi } from '../test-api.js'
import { T0, testInstance } from '../test-objects.js'
import { GoneNodes } from './gone-nodes.js'

const INSTANCE = '/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe'
const PODS = '/api/v1/pods'

describe('a node that has gone', () => {
  let api: TestApi

  beforeEach(() => {
    api = new TestApi()
    const instance = testInstance(['a', 'b'])
    api.put(INSTANCE, { ...instance, spec: { ...instance.spec, deviceUsage: { 'cam-8120fe-0': 'a' } } })
  })

  afterEach(async () => {
    await api.stop()
  })

  async function leave(): Promise<number | undefined> {
    const { client, state } = await api.start()
    const { signal } = new AbortController()
    return new GoneNodes({ state, client, clock: new ManualClock(T0), log: silentLogger, signal }).reconcile('a' as NodeName)
  }

  const patches = () => api.sent('PATCH')

  it('R64 R103 leaves with its slots, by a write that tests what it builds on', async () => {
    await leave()
    expect(patches()).toEqual([
      [
        { op: 'test', path: '/spec/deviceUsage/cam-8120fe-0', value: 'a' },
        { op: 'test', path: '/spec/capacity', value: 1 },
        { op: 'replace', path: '/spec/deviceUsage/cam-8120fe-0', value: '' },
        { op: 'test', path: '/spec/nodes', value: ['a', 'b'] },
        { op: 'remove', path: '/spec/nodes/0' },
      ],
    ])
  })

  it('takes an Instance with it that only it saw, unless somebody joins at this moment', async () => {
    const { resourceVersion } = api.put(INSTANCE, { ...testInstance(['a']) }).metadata as { resourceVersion: string }
    await leave()
    expect(api.sent('DELETE')).toMatchObject([{ preconditions: { uid: 'uid-cam-8120fe', resourceVersion } }])
  })

  it('keeps its slots while a Pod is there that may still run, and is looked at again', async () => {
    const limits = { 'akri.sh/cam': '1' }
    api.put(`${PODS}/user`, { metadata: { name: 'user' }, spec: { containers: [{ resources: { limits } }] } })
    expect(await leave()).toBe(T0 + 10_000)
    expect(patches()).toEqual([
      [
        { op: 'test', path: '/spec/nodes', value: ['a', 'b'] },
        { op: 'remove', path: '/spec/nodes/0' },
      ],
    ])
  })

  it.each([
    ['the one that its agent of the existing system has left', ['x', 'a', 'akri.test/y'], 'a-fin', 1],
    ['none that somebody else has put there', ['a'], 'somebody', undefined],
  ])('A13 loses of finalizers %s', async (_what, finalizers, manager, index) => {
    const object = { ...testInstance(['b']) }
    const managedFields = [{ manager, operation: 'Apply' }]
    api.put(INSTANCE, { ...object, metadata: { ...object.metadata, finalizers, managedFields } })
    await leave()
    const path = `/metadata/finalizers/${index}`
    const removal = [
      { op: 'test', path, value: 'a' },
      { op: 'remove', path },
    ]
    expect(patches()).toEqual(index === undefined ? [] : [removal])
  })

  it('does not leave where somebody was faster: that brings it back', async () => {
    api.refusal = ({ method }) => {
      if (method !== 'PATCH') return undefined
      api.put(INSTANCE, { ...testInstance(['a', 'b', 'c']) })
      return { status: 422, message: 'the test failed' }
    }
    await expect(leave()).resolves.toBeUndefined()
  })

  it('is an error where nobody was faster: the write itself is refused', async () => {
    api.refusal = ({ method }) => (method === 'PATCH' ? { status: 422, message: 'spec.nodes: not so' } : undefined)
    await expect(leave()).rejects.toThrow(/422.*spec\.nodes: not so/)
  })
})
