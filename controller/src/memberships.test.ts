import type { NodeReport } from '@akrijs/api'
import { objectKey } from '@akrijs/kube'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { inSteps } from '../../test/support/eventually.js'
import type { TestApi } from './testing/api.js'
import { TestControl } from './testing/control.js'
import { INSTANCE, testInstance } from './testing/objects.js'

const KEY = objectKey('plant', 'cam-8120fe')

describe('the controller', () => {
  let controller: TestControl
  let api: TestApi
  let clock: ManualClock

  beforeEach(() => {
    controller = new TestControl()
    ;({ api, clock } = controller)
  })

  afterEach(() => controller.stop())

  const report = (name: string, memberships: NodeReport['memberships'], agent: object = {}) =>
    api.put(`/apis/akri.sh/v0/nodereports/${name}`, {
      metadata: { name },
      ...agent,
      counts: { configurations: 0, ready: 0, devices: 0 },
      configurations: {},
      memberships,
    })

  const agentPod = (on: string, name: string) =>
    api.put(`/api/v1/namespaces/akri/pods/${name}`, {
      metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
      spec: { nodeName: on },
      status: { conditions: [{ type: 'Ready', status: 'True' }] },
    })

  const nodes = () =>
    (api.objects.get(INSTANCE) as { spec: { nodes: string[] } } | undefined)?.spec.nodes
  const writes = () =>
    api.requests.filter(({ method, path }) => method === 'PATCH' && path === INSTANCE)

  it('A10 R98 lets many nodes join and leave a shared Instance in few writes', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `n${index}`)
    for (const name of names) api.putNode(name)
    api.putInstance(['n0'])
    await controller.start()
    const { uid } = testInstance([]).metadata
    for (const name of names) report(name, { [KEY]: { uid, wish: 'join' } })
    await inSteps(clock, () => expect(nodes()?.toSorted()).toEqual(names.toSorted()))
    expect(writes().length).toBeLessThanOrEqual(3)
    for (const name of names) report(name, { [KEY]: { uid, wish: 'leave' } })
    await inSteps(clock, () => expect(nodes()).toBeUndefined())
    expect(writes().length).toBeLessThanOrEqual(6)
  })

  it('A10 lets a node join that is ready again, and does what reports said before', async () => {
    api.putNode('a')
    api.putNode('b', 'Unknown')
    const { uid } = testInstance([]).metadata
    report('a', { [KEY]: { uid, wish: 'join' } })
    report('b', { [KEY]: { uid, wish: 'join' } })
    api.putInstance(['x'])
    api.putNode('x')
    await controller.start()
    await inSteps(clock, () => expect(nodes()).toEqual(['x', 'a']))
    api.putNode('b')
    await inSteps(clock, () => expect(nodes()).toEqual(['x', 'a', 'b']))
  })

  it('A10 R98 lets a node leave once for a wish, however long the report has it', async () => {
    for (const name of ['a', 'b']) api.putNode(name)
    const { uid } = testInstance([]).metadata
    const leave = { [KEY]: { uid, wish: 'leave' } } as const
    report('b', leave)
    api.putInstance(['a', 'b'])
    await controller.start()
    await inSteps(clock, () => expect(nodes()).toEqual(['a']))
    // The device is there again, and the agent has joined by itself for a container that runs.
    const rejoined = testInstance(['a', 'b'])
    const deviceUsage = { 'cam-8120fe-0': 'b' }
    api.put(INSTANCE, { ...rejoined, spec: { ...rejoined.spec, deviceUsage } })
    report('b', leave, { slots: {} })
    report('a', { [KEY]: { uid, wish: 'leave' } })
    await inSteps(clock, () => expect(nodes()).toEqual(['b']))
    expect(api.objects.get(INSTANCE)).toMatchObject({ spec: { deviceUsage } })
    report('b', {})
    report('b', leave)
    await inSteps(clock, () => expect(nodes()).toBeUndefined())
  })

  it('A10 R64 does nothing by the report of an agent that was taken off or exchanged', async () => {
    for (const name of ['a', 'b', 'c', 'x']) api.putNode(name)
    const { uid } = testInstance([]).metadata
    const agent = (name: string) => ({ agentPod: `agent-${name}`, agentNamespace: 'akri' })
    // The agent of `a` was taken off, and that of `b` is another one now.
    agentPod('b', 'other')
    agentPod('c', 'agent-c')
    for (const name of ['a', 'b', 'c']) report(name, { [KEY]: { uid, wish: 'join' } }, agent(name))
    report('x', { [KEY]: { uid, wish: 'leave' } }, agent('x'))
    api.putInstance(['x'])
    await controller.start()
    await inSteps(clock, () => expect(nodes()).toEqual(['x', 'c']))
    agentPod('a', 'agent-a')
    await inSteps(clock, () => expect(nodes()).toEqual(['x', 'c', 'a']))
  })
})
