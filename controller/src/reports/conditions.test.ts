import type { Condition, NodeConditionType, NodeStatus } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BrokerCensus } from '../brokers/broker-census.js'
import { type BrokerProblem, PROBLEM_REASONS } from '../brokers/broker-problem.js'
import {
  brokersReady,
  type Finding,
  handlersReady,
  propertiesResolved,
  type StatusOfNode,
} from './conditions.js'

type Found = readonly [status: Condition['status'], reason: string]
type Expected = readonly [...Found, message?: string]

/** A node; each condition has its reason and the node as its message. */
function node(name: string, found: Partial<Record<NodeConditionType, Found>>): StatusOfNode {
  const conditions = Object.entries(found).map(([type, [status, reason]]) => ({
    type: type as NodeConditionType,
    status,
    reason,
    message: `${reason} on ${name}`,
  }))
  const status: NodeStatus = { observedGeneration: 1, devices: 0, conditions }
  return { node: name as NodeName, status }
}

function expectIs(finding: Finding | undefined, [status, reason, message]: Expected): void {
  const expected = { status, reason, message: message ?? expect.any(String) }
  expect(finding).toEqual(expected)
}

describe('the condition HandlersReady', () => {
  const handler = (name: string, connected: Found, ready: Found = ['True', 'NoDevices']) =>
    node(name, { HandlerConnected: connected, Ready: ready })
  const works = (name: string) => handler(name, ['True', 'Connected'])
  const lacks = (name: string) => handler(name, ['False', 'NoHandler'])
  const fails = (name: string, reason: string) => handler(name, ['False', reason])
  const asks = (name: string, reason: string) => handler(name, ['Unknown', reason])
  const left: Found = ['False', 'HandlerLost']

  it.each<[string, readonly StatusOfNode[], Expected]>([
    [
      'true if the handler works on a node',
      [works('a')],
      ['True', 'HandlersWork', 'the handler works on 1 of 1 nodes'],
    ],
    [
      'true if it works on each node that has it',
      [lacks('a'), works('b'), works('c')],
      [
        'True',
        'HandlersWork',
        'the handler works on 2 of 3 nodes; the others do not have it: NoHandler on a',
      ],
    ],
    [
      'true without a node that tells of no handler',
      [node('a', { Ready: ['False', 'NameTaken'] }), works('b')],
      ['True', 'HandlersWork', 'the handler works on 1 of 1 nodes'],
    ],
    [
      'false if no node has the handler',
      [lacks('a'), lacks('b')],
      ['False', 'NoHandler', 'NoHandler on a'],
    ],
    [
      'false for one node, without its name',
      [fails('a', 'InternalError')],
      ['False', 'InternalError', 'InternalError on a'],
    ],
    [
      'false with the worst reason of any node',
      [works('a'), fails('d', 'HandlerFailed'), fails('c', 'Unreachable'), lacks('b')],
      ['False', 'HandlerFailed', '1 of 4 nodes; d: HandlerFailed on d'],
    ],
    [
      'false with the first node by name',
      [works('a'), fails('c', 'Unreachable'), fails('b', 'Unreachable')],
      ['False', 'Unreachable', '2 of 3 nodes; b: Unreachable on b'],
    ],
    [
      'false if a handler left its devices',
      [works('a'), handler('b', ['True', 'Connected'], left)],
      ['False', 'HandlerLost', '1 of 2 nodes; b: HandlerLost on b'],
    ],
    [
      'false if a handler left its devices, and its node',
      [works('a'), handler('b', ['False', 'NoHandler'], left)],
      ['False', 'HandlerLost', '1 of 2 nodes; b: HandlerLost on b'],
    ],
    ...['Connecting', 'MissingProperty', 'PropertyForbidden'].map(
      (reason): [string, StatusOfNode[], Expected] => [
        `unknown until each handler has been asked: ${reason}`,
        [works('a'), asks('b', reason)],
        ['Unknown', 'Waiting'],
      ],
    ),
    [
      'unknown while the only handler connects',
      [lacks('a'), asks('b', 'Connecting')],
      ['Unknown', 'Waiting'],
    ],
  ])('is %s', (_what, nodes, expected) => expectIs(handlersReady(nodes), expected))

  it('is absent if no node tells of a handler', () => {
    expect(handlersReady([])).toBeUndefined()
    expect(handlersReady([node('a', { Ready: ['False', 'NameTaken'] })])).toBeUndefined()
  })
})

describe('the condition PropertiesResolved', () => {
  const discovering = (name: string, connected: Found, found: Found) =>
    node(name, { HandlerConnected: connected, Discovering: found })
  const listens = discovering('a', ['True', 'Connected'], ['True', 'Listening'])
  const lacks = discovering('b', ['False', 'NoHandler'], ['Unknown', 'Waiting'])
  const fails = (name: string, reason: string) =>
    discovering(name, ['Unknown', reason], ['False', reason])
  const answers = (reason: string) => discovering('a', ['False', reason], ['False', reason])

  it.each<[string, readonly StatusOfNode[], Expected]>([
    [
      'true once a handler listens',
      [listens, lacks],
      ['True', 'Resolved', 'handlers have all properties'],
    ],
    ...['InvalidDetails', 'Unreachable', 'HandlerFailed'].map(
      (reason): [string, StatusOfNode[], Expected] => [
        `true whatever the handler answers: ${reason}`,
        [answers(reason)],
        ['True', 'Resolved'],
      ],
    ),
    ['unknown without a handler', [lacks], ['Unknown', 'Waiting']],
    ['unknown without a node', [], ['Unknown', 'Waiting']],
    [
      'unknown while the handler connects',
      [discovering('a', ['Unknown', 'Connecting'], ['Unknown', 'Waiting'])],
      ['Unknown', 'Waiting'],
    ],
    [
      'false for what is not found',
      [fails('c', 'MissingProperty')],
      ['False', 'MissingProperty', 'MissingProperty on c'],
    ],
    [
      'false for what is forbidden, on any node',
      [listens, lacks, fails('d', 'MissingProperty'), fails('c', 'PropertyForbidden')],
      ['False', 'PropertyForbidden', '1 of 4 nodes; c: PropertyForbidden on c'],
    ],
  ])('is %s', (_what, nodes, expected) => expectIs(propertiesResolved(nodes), expected))
})

const CENSUS: BrokerCensus = {
  what: 'broker Pods',
  desired: 6,
  updated: 2,
  ready: 6,
  problems: [],
  rollout: undefined,
}
const ROLLING = { isStuck: false, waitsFor: 'x' }
const STUCK = { ...ROLLING, isStuck: true }

const problem = (reason: BrokerProblem['reason'], message = 'text'): BrokerProblem => ({
  reason,
  message,
})
const refused = problem('BrokerRefused', 'no')
const crashed = problem('CrashLoop')

describe('the condition BrokersReady', () => {
  it.each<[string, Partial<BrokerCensus>]>([
    ['True Ready: 6 of 6 broker Pods are ready', {}],
    ['True Ready: 0 of 0 broker Pods are ready', { desired: 0, ready: 0 }],
    ['False Starting: 1 of 6 broker Pods are ready', { ready: 1 }],
    // The worst problem is shown, and all count.
    [
      'False BrokerRefused: 1 of 6 broker Pods are ready, 3 failed: no',
      { ready: 1, problems: [crashed, refused, problem('PodFailed')] },
    ],
    [
      'False BrokerRefused: 6 of 6 broker Pods are ready, 1 failed: no',
      { ready: 6, problems: [refused] },
    ],
    ['False RollingOut: 6 of 6 broker Pods are ready, 2 of 6 are updated', { rollout: ROLLING }],
    [
      'False CrashLoop: 5 of 6 broker Pods are ready, 2 of 6 are updated, 1 failed: text',
      { ready: 5, problems: [crashed], rollout: ROLLING },
    ],
    [
      'False RolloutStuck: 5 of 6 broker Pods are ready, 2 of 6 are updated, 1 failed: text',
      { ready: 5, problems: [crashed], rollout: STUCK },
    ],
    [
      'False RolloutStuck: 5 of 6 broker Pods are ready, 2 of 6 are updated: Pod x is not ready',
      { ready: 5, rollout: STUCK },
    ],
  ])('is %s', (expected, census) => {
    const { status, reason, message } = brokersReady({ ...CENSUS, ...census })
    expect(`${status} ${reason}: ${message}`).toBe(expected)
  })

  it('is the same for the same problems in any order, and has a bounded message', () => {
    const problems = fc.array(
      fc.record({ reason: fc.constantFrom(...PROBLEM_REASONS), message: fc.string() }),
    )
    fc.assert(
      fc.property(problems, (found) => {
        const of = (list: readonly BrokerProblem[]) => brokersReady({ ...CENSUS, problems: list })
        expect(of(found.toReversed())).toEqual(of(found))
      }),
    )
    const long = problem('BrokerRefused', 'x\u001b[2J'.repeat(10_000))
    const { message } = brokersReady({ ...CENSUS, problems: [long] })
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024)
    expect(message).not.toMatch(/\p{Cc}/u)
  })
})
