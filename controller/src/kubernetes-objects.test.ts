import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type ClusterNode,
  type Job,
  type Pod,
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
const podOf = (object: unknown, cached?: Pod, now = T0) => parsePod(object, cached, now)
const jobOf = (object: unknown, cached?: Job, now = T0) => parseJob(object, cached, now)
const nodeOf = (object: unknown, cached?: ClusterNode, now = T0) => parseNode(object, cached, now)
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
        for (const parse of [podOf, jobOf, nodeOf, parseAppliedObject]) {
          const found = parse(input)
          if (isNamed) expect(found?.metadata.name).toBe('x')
          for (const value of Object.values(found ?? {})) expect(value).not.toBeNaN()
        }
      }),
    )
    for (const value of [undefined, null, 7, 'x', [], {}]) expect(podOf(value)).toBeUndefined()
  })

  it('reads how long a Pod ran by the clock of its node, and whether any container ran', () => {
    const ended = (finishedAt: string) => ({ terminated: { startedAt: seconds(1), finishedAt } })
    const containerStatuses = [
      { state: ended(seconds(9)) },
      { state: { waiting: {} }, lastState: ended(seconds(5)) },
    ]
    const status = { phase: 'Failed', startTime: seconds(0), containerStatuses }
    expect(
      podOf({ metadata, status: { containerStatuses: [{ state: { running: {} } }] } })?.hasRun,
    ).toBe(true)
    expect(podOf({ metadata, status })).toMatchObject({
      phase: 'Failed',
      ranMs: 9000,
      hasRun: true,
    })
    expect(podOf({ metadata, status: { phase: 'Failed', reason: 'OutOfcpu' } })).toMatchObject({
      ranMs: 0,
      hasRun: false,
    })
  })

  it('dates each fact of a Pod, a Job and a node by the first sight of it', () => {
    // The clock of the API server is years ahead.
    const time = '2099-01-01T00:00:00Z'
    const ready = (status: string) => ({
      conditions: [{ type: 'Ready', status, lastTransitionTime: time }],
    })
    const deleted = { metadata: { ...metadata, deletionTimestamp: time } }
    const states = [
      { metadata },
      { metadata, status: { startTime: time, ...ready('False') } },
      { metadata, status: { startTime: time, ...ready('True') } },
      { ...deleted, status: { startTime: time, ...ready('True') } },
      { ...deleted, status: { startTime: time, ...ready('False'), phase: 'Failed' } },
      { ...deleted, status: { startTime: time, ...ready('False'), phase: 'Failed' } },
    ]
    let pod: Pod | undefined
    states.forEach((object, index) => {
      pod = podOf(object, pod, T0 + index)
    })
    expect(pod).toMatchObject({
      seenAt: T0,
      startedAt: T0 + 1,
      deletedAt: T0 + 3,
      readySince: T0 + 4,
      endedAt: T0 + 4,
    })
    const other = { metadata: { ...metadata, uid: 'other' } }
    expect(podOf(other, pod, T0 + 9)).toMatchObject({ seenAt: T0 + 9, readySince: T0 + 9 })
    const done = { conditions: [{ type: 'Failed', status: 'True', lastTransitionTime: time }] }
    const job = jobOf({ ...deleted, status: done }, jobOf({ ...deleted }, undefined, T0), T0 + 1)
    expect(job).toMatchObject({ deletedAt: T0, endedAt: T0 + 1 })
    expect(jobOf({ ...deleted, status: done }, job, T0 + 2)).toEqual(job)
    const away = nodeOf({ metadata, status: ready('Unknown') }, undefined, T0)
    const still = nodeOf({ metadata, status: ready('False') }, away, T0 + 1)
    expect(still?.readySince).toBe(T0)
    expect(nodeOf({ metadata, status: ready('True') }, still, T0 + 2)?.readySince).toBe(T0 + 2)
  })

  it('reads the node of a scheduled Pod from its spec, not from annotations and labels', () => {
    const annotations = { 'akri.sh/target-node': 'b' }
    const labels = { 'akri.sh/target-node': 'c' }
    expect(
      podOf({ metadata: { ...metadata, annotations, labels }, spec: { nodeName: 'a' } })
        ?.targetNode,
    ).toBe('a')
    expect(podOf({ metadata: { ...metadata, annotations, labels }, spec: {} })?.targetNode).toBe(
      'b',
    )
    expect(podOf({ metadata: { ...metadata, labels } })?.targetNode).toBe('c')
  })

  it('reads no name of a node from a text that cannot be one', () => {
    const target = (text: string) =>
      podOf({ metadata: { ...metadata, annotations: { 'akri.sh/target-node': text } } })?.targetNode
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
    expect(podOf(reduced)).toEqual(podOf(object))
    expect(jobOf(reduced)).toEqual(jobOf(object))
    expect(podOf(object)).toMatchObject({
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

  it('reads a node without conditions as not ready', () => {
    expect(nodeOf({ metadata })).toMatchObject({
      ready: false,
      readySince: T0,
      schedulable: true,
      taints: [],
    })
  })
})
