import type { Condition, NodeStatus } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { describe, expect, it } from 'vitest'
import { handlersCondition } from './handlers-condition.js'

type Finding = readonly [status: Condition['status'], reason: string, message?: string]

const node = (name: string, connected?: Finding, ready: Finding = ['True', 'NoDevices']) => {
  const found = [
    ...(connected === undefined ? [] : [['HandlerConnected', connected] as const]),
    ['Ready', ready] as const,
  ]
  const conditions = found.map(([type, [status, reason, message = 'text']]) => ({
    type,
    status,
    reason,
    message,
  }))
  const status: NodeStatus = { observedGeneration: 1, devices: 0, conditions }
  return { node: name as NodeName, status }
}
const works = (name: string) => node(name, ['True', 'Connected', 'udev@unix'])
const without = (name: string) => node(name, ['False', 'NoHandler', 'no handler udev is loaded'])
const fails = (name: string, reason: string) =>
  node(name, ['False', reason, `${reason} on ${name}`])
const of = (...nodes: Parameters<typeof handlersCondition>[0]) =>
  handlersCondition(nodes, undefined, 'now')

describe('the condition HandlersReady', () => {
  it('is true if the handler works on each node that has it', () => {
    expect(of(works('a'))).toEqual({
      type: 'HandlersReady',
      status: 'True',
      reason: 'HandlersWork',
      message: 'the handler works on 1 of 1 nodes',
      lastTransitionTime: 'now',
    })
    expect(of(without('a'), works('b'), works('c'))).toMatchObject({
      status: 'True',
      message:
        'the handler works on 2 of 3 nodes; the others do not have it: no handler udev is loaded',
    })
  })

  it('is false if no node has the handler', () => {
    expect(of(without('a'), without('b'))).toMatchObject({
      status: 'False',
      reason: 'NoHandler',
      message: 'no handler udev is loaded',
    })
  })

  it('is false if the handler fails on any node, with the worst reason', () => {
    expect(
      of(works('a'), fails('d', 'HandlerFailed'), fails('c', 'Unreachable'), without('b')),
    ).toMatchObject({
      status: 'False',
      reason: 'HandlerFailed',
      message: '1 of 4 nodes; d: HandlerFailed on d',
    })
    expect(of(works('a'), fails('c', 'Unreachable'), fails('b', 'Unreachable'))).toMatchObject({
      reason: 'Unreachable',
      message: '2 of 3 nodes; b: Unreachable on b',
    })
    expect(of(fails('a', 'InternalError'))).toMatchObject({ message: 'InternalError on a' })
  })

  it('is false if a handler left its devices, also if the node does not have it any more', () => {
    const left = node('b', ['False', 'NoHandler'], ['False', 'HandlerLost', '2 of 2 devices'])
    const lost = {
      status: 'False',
      reason: 'HandlerLost',
      message: '1 of 2 nodes; b: 2 of 2 devices',
    }
    expect(of(works('a'), left)).toMatchObject(lost)
    const silent = node('b', ['True', 'Connected'], ['False', 'HandlerLost', '2 of 2 devices'])
    expect(of(works('a'), silent)).toMatchObject(lost)
  })

  it('is unknown until each handler has been asked', () => {
    const waiting = { status: 'Unknown', reason: 'Waiting' }
    for (const reason of ['Connecting', 'MissingProperty', 'PropertyForbidden'])
      expect(of(works('a'), node('b', ['Unknown', reason]))).toMatchObject(waiting)
    expect(of(without('a'), node('b', ['Unknown', 'Connecting']))).toMatchObject(waiting)
  })

  it('is absent if no node tells of a handler', () => {
    expect(of()).toBeUndefined()
    expect(of(node('a', undefined, ['False', 'NameTaken']))).toBeUndefined()
    expect(of(node('a'), works('b'))).toMatchObject({
      message: 'the handler works on 1 of 1 nodes',
    })
  })

  it('keeps its time while its status is the same', () => {
    const before = of(without('a'))
    const time = (...nodes: Parameters<typeof handlersCondition>[0]) =>
      handlersCondition(nodes, before, 'later')?.lastTransitionTime
    expect(time(fails('a', 'Unreachable'))).toBe('now')
    expect(time(works('a'))).toBe('later')
  })
})
