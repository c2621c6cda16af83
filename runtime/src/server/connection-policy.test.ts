import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  admission,
  type ConnectionStage,
  type ConnectionState,
  type PlaceLimits,
} from './connection-policy.js'

const STAGES: readonly ConnectionStage[] = [
  'opened',
  'receiving',
  'answering',
  'sending',
  'idle',
  'ending',
]
const NOW = 10_000

const state = fc.record({
  stage: fc.constantFrom(...STAGES),
  since: fc.integer({ min: 0, max: NOW }),
})
const at = (stage: ConnectionStage, since = 0): ConnectionState => ({ stage, since })
const times = (count: number, stage: ConnectionStage) =>
  Array.from({ length: count }, () => at(stage))

/** Decides for a peer, and finds the connection that gives way. */
function decide(own: ConnectionState[], others: ConnectionState[][], limits: PlaceLimits) {
  const fate = admission(own, others, limits, NOW)
  const dropped = typeof fate === 'string' ? undefined : fate.drop
  const loser = [own, ...others].find((peer) => peer.some((each) => each === dropped))
  return { fate, dropped, loser }
}

describe('a new connection', () => {
  const limits = { connections: 20, ofPeer: 12 }
  const peers = fc.array(fc.array(state, { minLength: 1, maxLength: 12 }), { maxLength: 19 })

  it('costs no connection of a peer within its share, and is not refused within the share', () => {
    fc.assert(
      fc.property(fc.array(state, { maxLength: 12 }), peers, (own, others) => {
        const count = others.reduce((sum, { length }) => sum + length, own.length)
        fc.pre(count <= limits.connections)
        const share = limits.connections / (others.length + 1)
        const { fate, loser } = decide(own, others, limits)
        if (loser !== undefined && loser !== own) {
          expect(loser.length).toBeGreaterThan(share)
          expect(loser.length).toBeGreaterThan(own.length)
        }
        if (own.length + 1 <= Math.min(share, limits.ofPeer)) {
          expect(fate).not.toBe('refused')
          expect(loser).not.toBe(own)
        }
        // No bound is exceeded.
        if (fate === 'room') expect(count).toBeLessThan(limits.connections)
        if (fate === 'room' || (loser !== undefined && loser !== own))
          expect(own.length).toBeLessThan(limits.ofPeer)
      }),
      { numRuns: 500 },
    )
  })

  it('of any hostile peers costs an honest peer none of its few connections', () => {
    const large = { connections: 60, ofPeer: 40 }
    const step = fc.record({ peer: fc.nat(10), stage: fc.constantFrom(...STAGES) })
    fc.assert(
      fc.property(fc.array(step, { minLength: 60, maxLength: 300 }), (steps) => {
        const honest = times(5, 'idle')
        const hostile = Array.from({ length: 11 }, (): ConnectionState[] => [])
        const all = [honest, ...hostile]
        for (const { peer, stage } of steps) {
          const own = hostile[peer] ?? []
          const others = all.filter((each) => each !== own)
          const { fate, dropped, loser } = decide(own, others, large)
          if (loser !== undefined && dropped !== undefined) loser.splice(loser.indexOf(dropped), 1)
          if (fate !== 'refused') own.push(at(stage, 0))
          expect(honest).toHaveLength(5)
          // 60 places and 12 peers: four connections and another one are within the share.
          expect(decide(times(4, 'idle'), hostile, large).fate).not.toBe('refused')
        }
      }),
    )
  })

  it('takes the place of an unused connection before that of a request at work', () => {
    const idle = at('idle')
    const fate = admission(
      [],
      [times(9, 'answering'), [...times(7, 'receiving'), idle], times(3, 'idle')],
      limits,
      NOW,
    )
    expect(fate).toEqual({ drop: idle })
  })

  it('takes the place of a request at work only within its share', () => {
    const atWork = (...counts: number[]) => counts.map((count) => times(count, 'answering'))
    expect(decide(times(8, 'answering'), atWork(12), limits).loser).toHaveLength(12)
    expect(decide(times(4, 'answering'), atWork(12, 4), limits).loser).toHaveLength(12)
    expect(decide(times(5, 'answering'), atWork(12, 2, 1), limits).fate).toBe('refused')
    expect(decide(times(7, 'idle'), atWork(11, 2), limits).loser).toHaveLength(7)
  })

  it.each<[string, ConnectionState, ConnectionState]>([
    ['an ending', at('ending', NOW), at('opened')],
    ['an old opened', at('opened'), at('idle')],
    ['an old unread', at('sending'), at('idle')],
    ['an idle', at('idle', NOW), at('opened', NOW)],
    ['a young unread', at('sending', NOW), at('receiving')],
    ['the oldest', at('idle', 1), at('idle', 2)],
  ])('of a peer with too many takes the place of %s connection', (_what, drop, kept) => {
    const few = { connections: 20, ofPeer: 2 }
    for (const own of [
      [drop, kept],
      [kept, drop],
    ])
      expect(decide(own, [], few).dropped).toBe(drop)
  })
})
