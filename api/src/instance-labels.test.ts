import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  instanceLabels,
  isShownAsShared,
  isShownByNode,
  isUnlabelled,
  labelPatch,
  labelValue,
  nodeSelector,
} from './instance-labels.js'
import type { Instance } from './types.js'

const LONG = `${'worker.'.repeat(12)}example.com` as NodeName

const instance = (
  spec: { shared: boolean; nodes: readonly string[] },
  labels?: Record<string, string>,
) => ({ metadata: { uid: 'u', labels }, spec }) as unknown as Instance

describe('the labels of an Instance', () => {
  it('name the node of a local device, and mark a shared one', () => {
    const nodes = ['worker-1'] as NodeName[]
    expect(instanceLabels({ shared: false, nodes })).toEqual({ 'akri.sh/node': 'worker-1' })
    expect(instanceLabels({ shared: true, nodes })).toEqual({ 'akri.sh/shared': 'true' })
    expect(instanceLabels({ shared: false, nodes: [] })).toEqual({})
  })

  it('fit a node whose name is too long for a label', () => {
    const [value = ''] = Object.values(instanceLabels({ shared: false, nodes: [LONG] }))
    expect(value).toMatch(/^worker\..{40,45}-[0-9a-f]{10}$/)
    expect(nodeSelector(LONG)).toBe(`akri.sh/node=${value}`)
    const labelled = instance({ shared: false, nodes: [LONG] }, { 'akri.sh/node': value })
    expect(isShownByNode(labelled, LONG)).toBe(true)
    expect(isShownByNode(labelled, 'worker-1' as NodeName)).toBe(false)
    expect(isShownAsShared(labelled)).toBe(false)
  })

  it('are missing where neither is there, and are written to the same object only', () => {
    const local = { shared: false, nodes: ['a'] }
    expect(isUnlabelled(instance(local))).toBe(true)
    expect(isUnlabelled(instance(local, { other: 'x' }))).toBe(true)
    expect(isUnlabelled(instance(local, { 'akri.sh/node': 'b' }))).toBe(false)
    expect(isUnlabelled(instance({ shared: false, nodes: [] }))).toBe(false)
    expect(labelPatch(instance(local))).toEqual({
      metadata: { uid: 'u', labels: { 'akri.sh/node': 'a' } },
    })
  })

  it('have values that an API server accepts, and differ for different nodes', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?$/), (name) => {
        expect(labelValue(name)).toMatch(/^[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?$/)
      }),
    )
    expect(labelValue(`${LONG}a`)).not.toBe(labelValue(`${LONG}b`))
  })
})
