import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  parseAppliedObject,
  parseDeployment,
  parseJob,
  parseNode,
  parsePod,
  reducedApplied,
  reducedWorkload,
} from './kubernetes-objects.js'
import { T0 } from './testing/objects.js'

const metadata = {
  name: 'x',
  namespace: 'plant',
  uid: 'u',
  resourceVersion: '1',
  creationTimestamp: new Date(T0).toISOString(),
}
const seconds = (count: number) => new Date(T0 + count * 1000).toISOString()

describe('a parser of Kubernetes objects', () => {
  it('C8 reads any object without an error', () => {
    const KEYS = [
      'spec',
      'status',
      'conditions',
      'phase',
      'nodeName',
      'containerStatuses',
      'state',
      'terminated',
      'finishedAt',
      'type',
    ]
    const anything = fc.object({
      key: fc.constantFrom(...KEYS),
      maxDepth: 5,
      values: [
        fc.string(),
        fc.constantFrom('Ready', 'True', 'Failed', '9999-01-01T00:00:00Z'),
        fc.double(),
        fc.constant(null),
        fc.boolean(),
      ],
    })
    const labels = fc.oneof(fc.dictionary(fc.string(), fc.string()), fc.anything())
    fc.assert(
      fc.property(anything, labels, fc.boolean(), (object, text, isNamed) => {
        const input = isNamed
          ? {
              ...object,
              metadata: { ...metadata, labels: text, annotations: text, ownerReferences: text },
            }
          : object
        for (const parse of [parsePod, parseJob, parseNode, parseAppliedObject]) {
          const found = parse(input)
          if (isNamed) expect(found?.metadata.name).toBe('x')
          for (const value of Object.values(found ?? {})) expect(value).not.toBeNaN()
        }
      }),
    )
    for (const value of [undefined, null, 7, 'x', [], {}]) expect(parsePod(value)).toBeUndefined()
  })

  it('reads when the last container of a Pod ended, and whether any ran', () => {
    const ended = (finishedAt: string) => ({ terminated: { startedAt: seconds(1), finishedAt } })
    const containerStatuses = [
      { state: ended(seconds(9)) },
      { state: { waiting: {} }, lastState: ended(seconds(5)) },
    ]
    const status = { phase: 'Failed', startTime: seconds(0), containerStatuses }
    expect(
      parsePod({ metadata, status: { containerStatuses: [{ state: { running: {} } }] } })?.hasRun,
    ).toBe(true)
    expect(parsePod({ metadata, status })).toMatchObject({
      phase: 'Failed',
      startedAt: T0,
      endedAt: T0 + 9000,
      hasRun: true,
    })
    expect(parsePod({ metadata, status: { phase: 'Failed', reason: 'OutOfcpu' } })).toMatchObject({
      hasRun: false,
    })
    expect(parsePod({ metadata, status: { phase: 'Failed' } })?.endedAt).toBeUndefined()
  })

  it('reads whether a Pod is ready, and since when', () => {
    const parsed = (...conditions: object[]) => {
      const { ready, readySince } = parsePod({ metadata, status: { conditions } }) ?? {}
      return [ready, readySince]
    }
    const condition = { type: 'Ready', status: 'True', lastTransitionTime: seconds(3) }
    expect(parsed({ type: 'Initialized', status: 'True' }, condition)).toEqual([true, T0 + 3000])
    expect(parsed({ ...condition, status: 'False' })).toEqual([false, T0 + 3000])
    expect(parsed({ ...condition, lastTransitionTime: 'x' })).toEqual([true, undefined])
    expect(parsed()).toEqual([false, undefined])
  })

  it('reads the node of a scheduled Pod from its spec, not from annotations and labels', () => {
    const annotations = { 'akri.sh/target-node': 'b' }
    const labels = { 'akri.sh/target-node': 'c' }
    expect(
      parsePod({ metadata: { ...metadata, annotations, labels }, spec: { nodeName: 'a' } })
        ?.targetNode,
    ).toBe('a')
    expect(parsePod({ metadata: { ...metadata, annotations, labels }, spec: {} })?.targetNode).toBe(
      'b',
    )
    expect(parsePod({ metadata: { ...metadata, labels } })?.targetNode).toBe('c')
  })

  it('reads no name of a node from a text that cannot be one', () => {
    const target = (text: string) =>
      parsePod({ metadata: { ...metadata, annotations: { 'akri.sh/target-node': text } } })
        ?.targetNode
    expect(target('node-1.example')).toBe('node-1.example')
    for (const text of ['a\nb', 'A b', 'x'.repeat(254), '']) expect(target(text)).toBeUndefined()
  })

  it('keeps of a large Pod or Job only what is read', () => {
    const large = 'x'.repeat(100_000)
    const object = {
      metadata: {
        ...metadata,
        labels: { controller: 'akri.sh', 'pod-template-hash': 'h', [large]: 'y' },
        annotations: { 'akri.sh/restarts': '3', note: large },
        managedFields: [{ manager: large }],
        ownerReferences: [
          ...Array.from({ length: 1000 }, () => ({ kind: 'Pod', name: 'p', uid: 'p' })),
          { apiVersion: 'akri.sh/v0', kind: 'Instance', name: 'i', uid: 'i', controller: true },
        ],
        finalizers: Array.from({ length: 1000 }, (_, index) => `akri.test/${index}`),
      },
      spec: { nodeName: 'a', suspend: true, containers: [{ name: 'c', args: [large] }] },
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
    }
    const reduced = reducedWorkload(object)
    expect(JSON.stringify(reduced).length).toBeLessThan(1000)
    expect(parsePod(reduced)).toEqual(parsePod(object))
    expect(parseJob(reduced)).toEqual(parseJob(object))
    expect(parsePod(object)).toMatchObject({
      ready: true,
      node: 'a',
      metadata: {
        labels: { controller: 'akri.sh', 'pod-template-hash': 'h' },
        annotations: { 'akri.sh/restarts': '3' },
      },
    })
  })

  it('keeps the fields that the controller applied as text, and little else', () => {
    const large = 'x'.repeat(100_000)
    const fieldsV1 = { 'f:spec': { 'f:replicas': {} } }
    const object = {
      metadata: {
        ...metadata,
        generation: 3,
        labels: { controller: 'akri.sh' },
        managedFields: [
          { manager: 'akri-controller', operation: 'Apply', fieldsV1 },
          { manager: large, operation: 'Update', fieldsV1: { 'f:spec': {} } },
        ],
      },
      spec: { replicas: 2, template: { metadata: { annotations: { note: large } } } },
      status: { observedGeneration: 3, readyReplicas: 1 },
    }
    const reduced = reducedApplied(object)
    expect(JSON.stringify(reduced).length).toBeLessThan(1000)
    expect(parseDeployment(reduced)).toEqual(parseDeployment(object))
    expect(parseDeployment(object)).toMatchObject({
      applied: JSON.stringify(fieldsV1),
      desired: 2,
      ready: 1,
      isObserved: true,
    })
  })

  it('reads a node without conditions as not ready since its creation', () => {
    expect(parseNode({ metadata })).toMatchObject({
      ready: false,
      readySince: T0,
      schedulable: true,
      taints: [],
    })
  })
})
