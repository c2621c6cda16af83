import { describe, expect, it } from 'vitest'
import type { ClusterNode, Taint } from '../kubernetes-objects.js'
import { testNode } from '../testing/objects.js'
import { nodeObstacleOf } from './node-fit.js'

const nodeFitOf = (spec: Readonly<Record<string, unknown>>) => (node: ClusterNode | undefined) =>
  nodeObstacleOf(spec)(node) === undefined

const labelled = (labels: Readonly<Record<string, string>>): ClusterNode => {
  const node = testNode('a')
  return { ...node, metadata: { ...node.metadata, labels } }
}
const tainted = (...taints: readonly Taint[]): ClusterNode => ({ ...testNode('a'), taints })
const affinity = (...nodeSelectorTerms: readonly object[]) => ({
  affinity: {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
  },
})
const expression = (operator: string, values?: readonly string[]) =>
  affinity({ matchExpressions: [{ key: 'zone', operator, values }] })

describe('a node for a broker', () => {
  it('is compared with the terms of a spec once', () => {
    let looks = 0
    const labels = new Proxy<Record<string, string>>(
      {},
      {
        getOwnPropertyDescriptor() {
          looks++
          return undefined
        },
      },
    )
    const node = labelled(labels)
    const obstacleOn = nodeObstacleOf(expression('In', ['a']))
    for (let round = 0; round < 3; round++)
      expect(obstacleOn(node)).toBe('the node affinity does not match it')
    expect(looks).toBe(1)
    expect(obstacleOn(labelled({ zone: 'a' }))).toBeUndefined()
  })

  it('is ready, schedulable, and not deleted', () => {
    const node = testNode('a')
    const deletionTimestamp = '2026-01-01T00:00:00Z'
    const fits = nodeFitOf({})
    expect(fits(node)).toBe(true)
    expect(fits(undefined)).toBe(false)
    expect(fits({ ...node, ready: false })).toBe(false)
    expect(fits({ ...node, schedulable: false })).toBe(false)
    expect(fits({ ...node, metadata: { ...node.metadata, deletionTimestamp } })).toBe(false)
  })

  it('has the labels of the nodeSelector', () => {
    expect(nodeFitOf({ nodeSelector: { zone: 'x' } })(labelled({ zone: 'x' }))).toBe(true)
    expect(nodeFitOf({ nodeSelector: { zone: 'x' } })(labelled({}))).toBe(false)
    // The API server refuses an invalid selector, with a reason.
    expect(nodeFitOf({ nodeSelector: { zone: 1 } })(labelled({}))).toBe(true)
  })

  it.each<[string, object, object, boolean]>([
    ['In', expression('In', ['x', 'y']), { zone: 'y' }, true],
    ['In, with another value', expression('In', ['x']), { zone: 'y' }, false],
    ['In, without the label', expression('In', ['x']), {}, false],
    ['NotIn', expression('NotIn', ['x']), { zone: 'x' }, false],
    ['NotIn, without the label', expression('NotIn', ['x']), {}, true],
    ['Exists', expression('Exists'), { zone: '' }, true],
    ['Exists, without the label', expression('Exists'), {}, false],
    ['DoesNotExist', expression('DoesNotExist'), { zone: '' }, false],
    ['Gt', expression('Gt', ['3']), { zone: '10' }, true],
    ['Gt, with the same number', expression('Gt', ['3']), { zone: '3' }, false],
    ['Gt, without the label', expression('Gt', ['3']), {}, false],
    ['Lt', expression('Lt', ['10']), { zone: '9' }, true],
    ['Lt, with no number', expression('Lt', ['10']), { zone: 'x' }, false],
    ['a term without requirements', affinity({}), {}, false],
    ['no term', affinity(), {}, false],
    [
      'one of two terms',
      affinity({}, { matchExpressions: [{ key: 'z', operator: 'DoesNotExist' }] }),
      {},
      true,
    ],
    [
      'the name',
      affinity({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['a'] }] }),
      {},
      true,
    ],
    [
      'another name',
      affinity({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['b'] }] }),
      {},
      false,
    ],
    ['an unknown operator', expression('Like', ['x']), {}, true],
    ['affinity that the API server refuses', { affinity: { nodeAffinity: 'x' } }, {}, true],
    [
      'preferences only',
      { affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{}] } } },
      {},
      true,
    ],
  ])('is chosen by required affinity: %s', (_, spec, labels, expected) => {
    expect(nodeFitOf({ ...spec })(labelled({ ...labels }))).toBe(expected)
  })

  const taint: Taint = { key: 'gpu', value: 'a', effect: 'NoSchedule' }
  it.each<[string, readonly object[], boolean]>([
    ['none', [], false],
    ['the same', [{ key: 'gpu', operator: 'Equal', value: 'a', effect: 'NoSchedule' }], true],
    ['without an operator', [{ key: 'gpu', value: 'a' }], true],
    ['another value', [{ key: 'gpu', value: 'b' }], false],
    ['another effect', [{ key: 'gpu', operator: 'Exists', effect: 'NoExecute' }], false],
    ['any value', [{ key: 'gpu', operator: 'Exists' }], true],
    ['everything', [{ operator: 'Exists' }], true],
    ['an empty key without Exists', [{ value: 'a' }], false],
    ['another key', [{ key: 'tpu', operator: 'Exists' }], false],
  ])('has no taint that the Pod does not tolerate: %s', (_, tolerations, expected) => {
    expect(nodeFitOf({ tolerations })(tainted(taint))).toBe(expected)
  })

  it('needs a toleration for each taint', () => {
    const other: Taint = { key: 'edge', value: '', effect: 'NoExecute' }
    const one = { key: 'gpu', operator: 'Exists' }
    expect(nodeFitOf({ tolerations: [one] })(tainted(taint, other))).toBe(false)
    const both = [one, { key: 'edge', operator: 'Exists', effect: 'NoExecute' }]
    expect(nodeFitOf({ tolerations: both })(tainted(taint, other))).toBe(true)
  })

  it('tells the first obstacle of a node that is none', () => {
    const node = testNode('a')
    const selector = { nodeSelector: { zone: 'x' } }
    const master: Taint = { key: 'master', value: '', effect: 'NoExecute' }
    const obstacle = (spec: object, found: ClusterNode | undefined) =>
      nodeObstacleOf({ ...spec })(found)
    expect([
      obstacle({}, undefined),
      obstacle({}, { ...node, ready: false, schedulable: false }),
      obstacle({}, { ...node, schedulable: false }),
      obstacle(selector, tainted(taint)),
      obstacle(affinity(), tainted(taint)),
      obstacle({}, tainted(taint, master)),
      obstacle({ tolerations: [{ key: 'gpu', operator: 'Exists' }] }, tainted(taint, master)),
      obstacle({}, node),
    ]).toEqual([
      'it was deleted',
      'it is not ready',
      'it is cordoned',
      'the nodeSelector asks for zone=x',
      'the node affinity does not match it',
      'the broker does not tolerate the taint gpu=a:NoSchedule',
      'the broker does not tolerate the taint master:NoExecute',
      undefined,
    ])
  })
})
