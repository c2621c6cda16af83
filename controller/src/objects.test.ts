import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAppliedObject, parseJob, parseNode, parsePod } from './objects.js'
import { T0 } from './testing/objects.js'

const metadata = {
  name: 'x',
  namespace: 'plant',
  uid: 'u',
  resourceVersion: '1',
  creationTimestamp: new Date(T0).toISOString(),
}
const seconds = (count: number) => new Date(T0 + count * 1000).toISOString()

describe('what is read of objects', () => {
  it('C8 is read of anything without an error', () => {
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
      fc.property(anything, labels, fc.boolean(), (object, own, isNamed) => {
        const given = isNamed
          ? {
              ...object,
              metadata: { ...metadata, labels: own, annotations: own, ownerReferences: own },
            }
          : object
        for (const parse of [parsePod, parseJob, parseNode, parseAppliedObject]) {
          const found = parse(given)
          if (isNamed) expect(found?.metadata.name).toBe('x')
          for (const value of Object.values(found ?? {})) expect(value).not.toBeNaN()
        }
      }),
    )
    for (const nothing of [undefined, null, 7, 'x', [], {}])
      expect(parsePod(nothing)).toBeUndefined()
  })

  it('of a Pod is when its last container ended, and whether one ran', () => {
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

  it('of a Pod is where it is, whatever somebody wrote into its annotations and labels', () => {
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

  it('of a node that has said nothing is that it is not ready since it was made', () => {
    expect(parseNode({ metadata })).toMatchObject({
      ready: false,
      readySince: T0,
      schedulable: true,
    })
  })
})
