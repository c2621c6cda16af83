import type { Condition } from '@akrijs/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BrokerProblem, PROBLEM_REASONS } from '../brokers/broker-problem.js'
import { brokersCondition } from './brokers-condition.js'

const NOW = '2026-01-02T00:00:00.000Z'
const BEFORE = '2026-01-01T00:00:00.000Z'
const base = { what: 'broker Pods', updated: 0, rollout: undefined }

const problem = (reason: BrokerProblem['reason'], message = 'text'): BrokerProblem => ({
  reason,
  message,
})
const problems = fc.array(
  fc.record({ reason: fc.constantFrom(...PROBLEM_REASONS), message: fc.string() }),
)
const count = fc.nat({ max: 20 })

describe('the condition BrokersReady', () => {
  it('is true while all brokers are ready, also for no broker', () => {
    for (const number of [0, 3])
      expect(
        brokersCondition({ ...base, desired: number, ready: number, problems: [] }, undefined, NOW),
      ).toEqual({
        type: 'BrokersReady',
        status: 'True',
        reason: 'Ready',
        message: `${number} of ${number} broker Pods are ready`,
        lastTransitionTime: NOW,
      })
  })

  it('has the worst problem, and counts all', () => {
    const found = [problem('CrashLoop'), problem('BrokerRefused', 'no'), problem('PodFailed')]
    expect(
      brokersCondition({ ...base, desired: 5, ready: 1, problems: found }, undefined, NOW),
    ).toMatchObject({
      status: 'False',
      reason: 'BrokerRefused',
      message: '1 of 5 broker Pods are ready, 3 failed: no',
    })
  })

  it('is false while brokers start, and while a problem keeps the next ones away', () => {
    expect(
      brokersCondition({ ...base, desired: 2, ready: 1, problems: [] }, undefined, NOW),
    ).toMatchObject({ status: 'False', reason: 'Starting' })
    expect(
      brokersCondition(
        { ...base, desired: 2, ready: 2, problems: [problem('BrokerRefused')] },
        undefined,
        NOW,
      ),
    ).toMatchObject({ status: 'False', reason: 'BrokerRefused' })
  })

  it('says that a roll-out runs or is stuck, with the first problem', () => {
    const rolling = { ...base, desired: 6, updated: 2 }
    const of = (ready: number, isStuck: boolean, found: readonly BrokerProblem[]) => {
      const rollout = { isStuck, waitsFor: 'x' }
      const census = { ...rolling, ready, rollout, problems: found }
      const { status, reason, message } = brokersCondition(census, undefined, NOW)
      return [status, reason, message]
    }
    const counts = (ready: number) => `${ready} of 6 broker Pods are ready, 2 of 6 are updated`
    expect(of(6, false, [])).toEqual(['False', 'RollingOut', counts(6)])
    expect(of(5, false, [problem('CrashLoop')])).toEqual([
      'False',
      'CrashLoop',
      `${counts(5)}, 1 failed: text`,
    ])
    expect(of(5, true, [problem('ImagePullFailed')])).toEqual([
      'False',
      'RolloutStuck',
      `${counts(5)}, 1 failed: text`,
    ])
    expect(of(5, true, [])).toEqual(['False', 'RolloutStuck', `${counts(5)}: Pod x is not ready`])
  })

  it('keeps its time while its status stays', () => {
    const before = (status: Condition['status']): Condition => ({
      type: 'BrokersReady',
      status,
      reason: 'R',
      message: '',
      lastTransitionTime: BEFORE,
    })
    const census = { ...base, desired: 2, ready: 1, problems: [] }
    const time = (status: Condition['status']) =>
      brokersCondition(census, before(status), NOW).lastTransitionTime
    expect([time('False'), time('True')]).toEqual([BEFORE, NOW])
  })

  it('is bounded and the same for the same problems in any order', () => {
    fc.assert(
      fc.property(count, count, problems, fc.nat(), (desired, ready, found, turn) => {
        const of = (list: readonly BrokerProblem[]) =>
          brokersCondition({ ...base, desired, ready, problems: list }, undefined, NOW)
        const start = found.length === 0 ? 0 : turn % found.length
        const turned = [...found.slice(start), ...found.slice(0, start)]
        expect(of(turned)).toEqual(of(found))
        expect(of(found).status === 'True').toBe(found.length === 0 && ready >= desired)
      }),
    )
    const long = problem('BrokerRefused', 'x\u001b[2J'.repeat(10_000))
    const { message } = brokersCondition(
      { ...base, desired: 1, ready: 0, problems: [long] },
      undefined,
      NOW,
    )
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024)
    expect(message).not.toMatch(/\p{Cc}/u)
  })
})
