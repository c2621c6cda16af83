import type { Condition, NodeStatus } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { testConfiguration, testInstance, testPod } from '../testing/objects.js'
import { absenceText, isSilentEntry, type ReportedNode, SHOWN_NODES, summaryOf } from './summary.js'

const NOW = '2026-01-01T00:00:00.000Z'
const NOTHING_ELSE = { brokers: undefined, hasReferences: false, now: NOW }

function statusWith(
  ready: Condition['status'],
  { discovering = 'True', observedGeneration = 3, devices = 1 }: StatusFields = {},
): NodeStatus {
  const fields = { reason: 'R', message: 'text' }
  return {
    observedGeneration,
    devices,
    conditions: [
      { type: 'HandlerConnected', status: 'True', ...fields },
      { type: 'Discovering', status: discovering, ...fields },
      { type: 'Ready', status: ready, ...fields },
    ],
  }
}

interface StatusFields {
  readonly discovering?: Condition['status']
  readonly observedGeneration?: number
  readonly devices?: number
}

const reported = (
  node: string,
  status: NodeStatus = statusWith('True'),
  agent: ReportedNode['agent'] = 'present',
): ReportedNode => ({ node: node as NodeName, status, agent })

function summary(reports: readonly ReportedNode[], configuration = testConfiguration()) {
  const instances = [testInstance(['a'], { capacity: 2 })]
  return (
    summaryOf({ ...NOTHING_ELSE, configuration, instances, reports }) ??
    expect.fail('there is no summary')
  )
}

const ready = ({ conditions }: { conditions: readonly Condition[] }) =>
  conditions.find(({ type }) => type === 'Ready') ?? expect.fail('there is no condition Ready')

describe('the summary of a Configuration', () => {
  it('counts nodes, devices and slots', () => {
    const reports = [
      reported('a'),
      reported('b', statusWith('False')),
      reported('c', statusWith('True'), 'silent'),
    ]
    expect(summary(reports)).toMatchObject({
      devices: 1,
      slots: { total: 2, claimed: 0, free: 2 },
      nodeCounts: { reporting: 2, ready: 1, silent: 1 },
    })
  })

  it('is absent before the first report, and does not stay after the last one', () => {
    const input = { ...NOTHING_ELSE, instances: [], reports: [] }
    const configuration = testConfiguration()
    expect(summaryOf({ ...input, configuration })).toBeUndefined()
    const status = summary([reported('a', statusWith('False'))])
    expect(summaryOf({ ...input, configuration: { ...configuration, status } })).toMatchObject({
      conditions: [{ type: 'Ready', status: 'Unknown', reason: 'NoAgent' }],
      nodeCounts: { reporting: 0, ready: 0, silent: 0 },
      nodes: {},
    })
  })

  it('shows the first few nodes with a problem, the worst first', () => {
    const reports = [
      reported('a', statusWith('True'), 'silent'),
      ...['b', 'c', 'd'].map((node) => reported(node, statusWith('Unknown'))),
      reported('e', statusWith('True', { discovering: 'False' })),
      reported('f', statusWith('False')),
      reported('g'),
    ]
    expect(Object.keys(summary(reports).nodes)).toEqual(['f', 'e', 'b', 'c', 'd'])
    expect(summary(reports.slice(0, 2)).nodes).toEqual({
      a: expect.objectContaining({
        conditions: [expect.objectContaining({ status: 'Unknown', reason: 'AgentSilent' })],
      }),
      b: statusWith('Unknown'),
    })
  })

  it('does not call a Configuration ready by the report of a silent node', () => {
    const silent = reported('a', statusWith('True'), 'silent')
    expect(ready(summary([silent]))).toMatchObject({ status: 'Unknown', reason: 'AgentSilent' })
    expect(ready(summary([silent, reported('b')]))).toMatchObject({
      status: 'Unknown',
      reason: 'AgentSilent',
      message:
        '1 of 2 nodes; a: the agent is not there; 1 devices before; ' + '1 node is silent: a',
    })
    const problem = reported('a', statusWith('False'), 'silent')
    expect(ready(summary([problem, reported('b')]))).toMatchObject({ status: 'Unknown' })
    expect(ready(summary([silent, reported('b', statusWith('False'))]))).toMatchObject({
      status: 'False',
      message: '1 of 2 nodes; b: text; 1 node is silent: a',
    })
  })

  it('is ready beside a silent node that had no devices', () => {
    const silent = reported('a', statusWith('False', { devices: 0 }), 'silent')
    expect(ready(summary([silent, reported('b')]))).toMatchObject({
      status: 'True',
      message: 'text; 1 node is silent: a',
    })
  })

  it('takes the last report of an agent that is away for a moment', () => {
    for (const status of ['True', 'False', 'Unknown'] as const)
      expect(ready(summary([reported('a', statusWith(status), 'away'), reported('b')]))).toEqual(
        expect.objectContaining({
          status,
          message: expect.stringMatching(/^[12] of 2 nodes; a: text; 1 node is silent: a$/),
        }),
      )
  })

  it.each([
    ['left', true, [], /^no agent is on the node: .* DaemonSet does not select the node/],
    ['silent', false, ['x'], /^the Node is not ready: kubectl describe node/],
    ['silent', true, ['x'], /^Pod x of the agent is not ready: kubectl -n akri describe pod x$/],
    ['exchanged', true, [], /^the Pod of the agent is gone/],
  ] as const)(
    'says what to look at while an agent is %s (Node ready: %s, Pods: %j)',
    (presence, isNodeReady, names, expected) => {
      const agents = names.map((name) => {
        const { metadata } = testPod('a', { name })
        return { metadata: { ...metadata, namespace: 'akri' } }
      })
      const absence = absenceText(presence, { isNodeReady, agents })
      expect(absence).toMatch(expected)
      const silent = { ...reported('a', statusWith('True'), 'silent'), absence }
      expect(ready(summary([silent])).message).toContain(absence)
    },
  )

  it('names three silent nodes at most', () => {
    const silent = ['e', 'd', 'c', 'b', 'a'].map((node) =>
      reported(node, statusWith('True'), 'silent'),
    )
    expect(ready(summary(silent)).message).toMatch(/; 5 nodes are silent: a, b, c and 2 more$/)
  })

  it('leaves it to the nodes that are heard whether a handler is connected', () => {
    const { conditions } = summary([reported('a', statusWith('True'), 'silent'), reported('b')])
    expect(conditions).toMatchObject([
      { type: 'HandlerConnected', status: 'True', message: 'text' },
      { type: 'Discovering', status: 'True' },
      { type: 'Ready', status: 'Unknown' },
      { type: 'HandlersReady', status: 'True' },
    ])
  })

  it('has conditions of the handlers, of properties, and of brokers', () => {
    const configuration = testConfiguration()
    const counts = { desired: 1, updated: 1, ready: 1 }
    const brokers = { what: 'broker Pods', ...counts, problems: [], rollout: undefined }
    const input = { configuration, instances: [], reports: [reported('a')], brokers, now: NOW }
    const types = summaryOf({ ...input, hasReferences: true })?.conditions.map(({ type }) => type)
    expect(types?.slice(3)).toEqual(['HandlersReady', 'PropertiesResolved', 'BrokersReady'])
  })

  it('has observed the generation that every agent has observed', () => {
    const at = (observedGeneration: number) => statusWith('True', { observedGeneration })
    expect(summary([reported('a', at(3)), reported('b', at(2))]).observedGeneration).toBe(2)
    // An agent that is away for a moment decides `Ready`: not of a version that it has not seen.
    expect(summary([reported('a', at(3)), reported('b', at(2), 'away')]).observedGeneration).toBe(2)
    expect(summary([reported('a', at(2), 'away')]).observedGeneration).toBe(2)
    expect(summary([reported('a', at(3)), reported('b', at(2), 'silent')])).toMatchObject({
      observedGeneration: 3,
    })
    expect(summary([reported('a', at(9))]).observedGeneration).toBe(3)
  })

  it('is not ready while it is being deleted, whatever nodes say', () => {
    const { metadata, ...rest } = testConfiguration()
    const deletion = { deletionTimestamp: NOW, finalizers: ['x/y', 'z'] }
    const deleted = { ...rest, metadata: { ...metadata, ...deletion } }
    const status = summary([reported('a')])
    for (const reports of [[reported('a')], []])
      expect(ready(summary(reports, { ...deleted, status }))).toMatchObject({
        status: 'False',
        reason: 'BeingDeleted',
        message: 'the Configuration is being deleted; finalizers hold it: x/y, z',
      })
  })

  it('is not ready while the image of a broker cannot be pulled, if its nodes are ready', () => {
    const problem = (reason: 'CrashLoop' | 'ImagePullFailed') => ({ reason, message: 'Pod x' })
    const readyWith = (
      reason: 'CrashLoop' | 'ImagePullFailed',
      status: Condition['status'] = 'True',
    ) => {
      const problems = [problem(reason)]
      const counts = { desired: 1, updated: 1, ready: 0 }
      const written = summaryOf({
        ...NOTHING_ELSE,
        configuration: testConfiguration(),
        instances: [],
        reports: [reported('a', statusWith(status))],
        brokers: { what: 'broker Pods', ...counts, problems, rollout: undefined },
      })
      const { status: is, reason: why } = ready(written ?? expect.fail())
      return `${is} ${why}`
    }
    expect(readyWith('ImagePullFailed')).toBe('False ImagePullFailed')
    expect(readyWith('ImagePullFailed', 'Unknown')).toBe('Unknown R')
    // `BrokersReady` has what brokers do once they have started.
    expect(readyWith('CrashLoop')).toBe('True R')
  })

  it('shows nodes without the handler after those with another problem', () => {
    const condition = { type: 'Ready', status: 'False', reason: 'NoHandler', message: '' } as const
    const without = { observedGeneration: 3, devices: 0, conditions: [condition] }
    const reports = ['a', 'b', 'c', 'd', 'e', 'f'].map((node) => reported(node, without))
    const status = summary([...reports, reported('z', statusWith('Unknown')), reported('y')])
    expect(Object.keys(status.nodes)).toEqual(['z'])
    expect(ready(status)).toMatchObject({ status: 'Unknown' })
  })

  it('keeps the time of a condition while its status is the same', () => {
    const before = { ...summary([reported('a')]) }
    const times = (status: typeof before) =>
      status.conditions.map(({ lastTransitionTime }) => lastTransitionTime)
    const conditions = before.conditions.map((condition) => ({
      ...condition,
      lastTransitionTime: 'before',
    }))
    const known = { ...testConfiguration(), status: { ...before, conditions } }
    expect(times(summary([reported('a'), reported('b')], known))).toEqual(Array(4).fill('before'))
    const changed = summary([reported('a', statusWith('Unknown'))], known)
    expect(times(changed)).toEqual(['before', 'before', NOW, 'before'])
    const [, ...others] = statusWith('True').conditions
    const refused = { type: 'HandlerConnected', reason: 'Unreachable', message: 'text' } as const
    const conditionsNow = [{ ...refused, status: 'False' as const }, ...others]
    const failing = { ...statusWith('True'), conditions: conditionsNow }
    expect(times(summary([reported('a', failing)], known))).toEqual([NOW, 'before', 'before', NOW])
  })

  it('is right for any reports, and changes nothing when it is computed again', () => {
    const status = fc.constantFrom<Condition['status']>('True', 'False', 'Unknown')
    const node = fc.record({
      ready: status,
      discovering: status,
      agent: fc.constantFrom<ReportedNode['agent']>('present', 'away', 'silent'),
    })
    fc.assert(
      fc.property(fc.array(node, { maxLength: 30 }), (nodes) => {
        const named = nodes.map((fields, index) => ({ ...fields, name: `node-${index}` }))
        const reports = named.map(({ name, ready: is, discovering, agent }) =>
          reported(name, statusWith(is, { discovering }), agent),
        )
        const base = { ...testConfiguration(), status: summary([reported('before')]) }
        const first = summary(reports, base)
        const counted = named.filter(({ agent }) => agent === 'present')
        expect(first.nodeCounts).toEqual({
          reporting: counted.length,
          ready: counted.filter((each) => each.ready === 'True').length,
          silent: named.length - counted.length,
        })
        // No node has a problem that the condition hides, and no node is silent behind it.
        if (named.length > 0) {
          const worst = (['False', 'Unknown', 'True'] as const).find((each) =>
            named.some(({ agent, ready: is }) => (agent === 'silent' ? 'Unknown' : is) === each),
          )
          expect(ready(first).status).toBe(worst)
        }
        const shown = Object.entries(first.nodes)
        expect(shown.length).toBeLessThanOrEqual(SHOWN_NODES)
        for (const [name, entry] of shown)
          expect(isSilentEntry(entry)).toBe(
            reports.some((each) => each.node === name && each.agent !== 'present'),
          )
        expect(summary(reports, { ...base, status: first })).toEqual(first)
        expect(summary([...reports].reverse(), { ...base, status: first })).toEqual(first)
      }),
    )
  })
})
