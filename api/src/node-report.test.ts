import { describe, expect, it } from 'vitest'
import { parseNodeReport } from './node-report.js'

const metadata = { name: 'worker-1', uid: 'u', resourceVersion: '7', creationTimestamp: 'then' }
const condition = {
  type: 'Ready',
  status: 'True',
  reason: 'AllDevicesServed',
  message: '1 devices',
}
const cam = { uid: 'u-cam', observedGeneration: 2, devices: 1, conditions: [condition] }
const deviceProblems = [{ reason: 'credential refused', instances: ['cam-8120fe'] }]
const counts = { configurations: 1, ready: 1, devices: 1 }

describe('a NodeReport of a server', () => {
  it('has the status of each Configuration, memberships, and Pods to end', () => {
    const object = {
      metadata,
      agentPod: 'agent-x',
      counts,
      configurations: { 'default/cam': { ...cam, leftOut: 3, deviceProblems } },
      memberships: { 'default/cam-8120fe': { uid: 'u-8120fe', wish: 'join' } },
      podsToEnd: { 'lab/user': { uid: 'u-user', slot: 'cam-8120fe-0' } },
    }
    expect(parseNodeReport(object)).toEqual({
      ...object,
      apiVersion: 'akri.sh/v0',
      kind: 'NodeReport',
      metadata: { ...metadata, namespace: '', generation: 0 },
    })
  })

  it('is empty without fields, and undefined if it is no object of the API', () => {
    expect(parseNodeReport({ metadata })).toMatchObject({ configurations: {}, memberships: {} })
    expect(parseNodeReport({ metadata, configurations: 'many' })).toMatchObject({
      configurations: {},
    })
    for (const object of [undefined, 'text', {}, { metadata: {} }])
      expect(parseNodeReport(object)).toBeUndefined()
  })

  it.each<[string, unknown]>([
    ['are no list', 'many'],
    ['are of too many devices', [{ reason: 'x', instances: Array(201).fill('cam-8120fe') }]],
    ['have too many reasons', Array(201).fill(deviceProblems[0])],
  ])('leaves out problems of devices that %s', (_, problems) => {
    const configurations = { 'default/cam': { ...cam, deviceProblems: problems } }
    expect(parseNodeReport({ metadata, configurations })?.configurations).toEqual({
      'default/cam': cam,
    })
  })

  it('has the reason of a problem without control characters', () => {
    const hostile = [{ reason: 'cam\u001b[2J', instances: ['cam-8120fe'] }]
    const configurations = { 'default/cam': { ...cam, deviceProblems: hostile } }
    expect(
      parseNodeReport({ metadata, configurations })?.configurations['default/cam' as never],
    ).toMatchObject({ deviceProblems: [{ reason: 'cam\ufffd[2J' }] })
  })

  it.each<[string, string, object]>([
    ['whose key has no namespace', 'dog', cam],
    ['without a uid', 'default/dog', { ...cam, uid: undefined }],
    ['with a negative number', 'default/dog', { ...cam, devices: -1 }],
    [
      'with more conditions than there are',
      'default/dog',
      { ...cam, conditions: Array(4).fill(condition) },
    ],
    [
      'with a reason that is no word',
      'default/dog',
      { ...cam, conditions: [{ ...condition, reason: 'a b' }] },
    ],
  ])('leaves out an entry %s', (_, key, entry) => {
    const configurations = { [key]: entry, 'default/cam': cam }
    expect(parseNodeReport({ metadata, configurations })?.configurations).toEqual({
      'default/cam': cam,
    })
  })

  it('has messages without control characters, in their bounds', () => {
    const conditions = [{ ...condition, message: `\u001b[2J${'x'.repeat(5000)}` }]
    const object = { metadata, configurations: { 'default/cam': { ...cam, conditions } } }
    const [stored] = Object.values(parseNodeReport(object)?.configurations ?? {})
    expect(stored?.conditions[0]?.message).toMatch(/^\ufffd\[2Jx{1000,1020}…$/)
  })
})
