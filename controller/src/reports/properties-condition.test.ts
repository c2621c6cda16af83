import type { Condition, NodeStatus } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { describe, expect, it } from 'vitest'
import { propertiesCondition } from './properties-condition.js'

type Finding = readonly [status: Condition['status'], reason: string]

const node = (name: string, connected: Finding, discovering: Finding, message = 'text') => {
  const conditions = (
    [
      ['HandlerConnected', connected],
      ['Discovering', discovering],
    ] as const
  ).map(([type, [status, reason]]) => ({ type, status, reason, message }))
  const status: NodeStatus = { observedGeneration: 1, devices: 0, conditions }
  return { node: name as NodeName, status }
}
const listening = node('a', ['True', 'Connected'], ['True', 'Listening'])
const without = node('b', ['False', 'NoHandler'], ['Unknown', 'Waiting'])
const failing = (name: string, reason: string) =>
  node(name, ['Unknown', reason], ['False', reason], `${reason} on ${name}`)
const of = (...nodes: Parameters<typeof propertiesCondition>[0]) =>
  propertiesCondition(nodes, undefined, 'now')

describe('the condition PropertiesResolved', () => {
  it('is true once a handler has been asked, whatever the handler answers', () => {
    expect(of(listening, without)).toEqual({
      type: 'PropertiesResolved',
      status: 'True',
      reason: 'Resolved',
      message: 'handlers have all properties',
      lastTransitionTime: 'now',
    })
    for (const reason of ['InvalidDetails', 'Unreachable', 'HandlerFailed'])
      expect(of(node('a', ['False', reason], ['False', reason]))).toMatchObject({ status: 'True' })
  })

  it('is unknown before that', () => {
    expect(of(without)).toMatchObject({ status: 'Unknown', reason: 'Waiting' })
    expect(of()).toMatchObject({ status: 'Unknown' })
    const connecting = node('a', ['Unknown', 'Connecting'], ['Unknown', 'Waiting'])
    expect(of(connecting)).toMatchObject({ status: 'Unknown' })
  })

  it('tells what is not found from what is forbidden, on any node', () => {
    expect(of(failing('c', 'MissingProperty'))).toMatchObject({
      status: 'False',
      reason: 'MissingProperty',
      message: 'MissingProperty on c',
    })
    expect(
      of(listening, without, failing('d', 'MissingProperty'), failing('c', 'PropertyForbidden')),
    ).toMatchObject({
      status: 'False',
      reason: 'PropertyForbidden',
      message: '1 of 4 nodes; c: PropertyForbidden on c',
    })
  })

  it('keeps its time while its status is the same', () => {
    const before = of(failing('a', 'MissingProperty'))
    const time = (name: string) =>
      propertiesCondition([failing('a', name)], before, 'later').lastTransitionTime
    expect(time('PropertyForbidden')).toBe('now')
    expect(propertiesCondition([listening], before, 'later').lastTransitionTime).toBe('later')
  })
})
