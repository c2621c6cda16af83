import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ApiRequest } from './api-client.js'
import { LeaderElection } from './leader-election.js'
import { Candidates } from './testing/candidates.js'
import type { FakeApiServer, Fate } from './testing/fake-api-server.js'
import { InProcessClient } from './testing/in-process-client.js'

let clock: ManualClock
let server: FakeApiServer
let candidates: Candidates

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  candidates = new Candidates(clock)
  ;({ server } = candidates)
})

afterEach(() => candidates.stop())

describe('a candidate', () => {
  it('creates a missing Lease, and renews it', async () => {
    const a = candidates.add('a')
    await clock.advance(0)
    expect(a.election.leads).toBe(true)
    expect(candidates.lease?.spec).toMatchObject({
      holderIdentity: 'a',
      leaseDurationSeconds: 22,
      renewTime: '1970-01-01T00:16:40.000000Z',
      acquireTime: '1970-01-01T00:16:40.000000Z',
      leaseTransitions: 0,
    })
    await clock.advance(60_000)
    expect(candidates.lease?.spec).toMatchObject({
      renewTime: '1970-01-01T00:17:38.500000Z',
      acquireTime: '1970-01-01T00:16:40.000000Z',
    })
    expect(a.turns).toEqual([{ from: 1_000_000 }])
  })

  it.each([
    ['far in the past', '1970-01-01T00:00:00.000000Z'],
    ['far in the future', '2099-01-01T00:00:00.000000Z'],
    ['unknown', undefined],
  ])(
    'takes over a Lease that has not changed for its duration by its own clock: renewed %s',
    async (_when, renewTime) => {
      candidates.setLease({
        holderIdentity: 'dead',
        leaseDurationSeconds: 15,
        leaseTransitions: 4,
        ...(renewTime ? { renewTime } : {}),
      })
      const a = candidates.add('a')
      await clock.advance(14_999)
      expect(a.turns).toEqual([])
      await clock.advance(2001)
      expect(a.election.leads).toBe(true)
      expect(candidates.lease?.spec).toMatchObject({ holderIdentity: 'a', leaseTransitions: 5 })
    },
  )

  it('waits for the duration in the Lease, not for its own duration', async () => {
    candidates.setLease({ holderIdentity: 'dead', leaseDurationSeconds: 100 })
    const a = candidates.add('a')
    await clock.advance(99_999)
    expect(a.turns).toEqual([])
    await clock.advance(2001)
    expect(a.election.leads).toBe(true)
  })

  it('does not take over a Lease with an endless duration', async () => {
    candidates.setLease({ holderIdentity: 'b', leaseDurationSeconds: 2 ** 31 - 1 })
    const slept: number[] = []
    const a = candidates.add('a', {
      clock: {
        monotonicMs: () => clock.monotonicMs(),
        wallMs: () => clock.wallMs(),
        sleep: (ms, signal) => {
          slept.push(ms)
          return clock.sleep(ms, signal)
        },
      },
    })
    await clock.advance(60_000)
    expect(a.turns).toEqual([])
    // A timer with a longer time would fire at once.
    expect(Math.max(...slept)).toBeLessThan(2 ** 31)
  })

  it('that waits asks nothing while the Lease is renewed', async () => {
    candidates.add('a')
    await clock.advance(0)
    const b = candidates.add('b')
    await clock.advance(1)
    server.requests.length = 0
    await clock.advance(180_000)
    expect(b.turns).toEqual([])
    expect(new Set(server.requests.map(({ method }) => method))).toEqual(new Set(['PUT']))
  })

  it('that may not watch the Lease takes over a free Lease after its duration', async () => {
    const a = candidates.add('a')
    await clock.advance(0)
    const b = candidates.add('b', {
      client: server.client(({ path, method }) => ({
        refused: method === 'GET' && path.endsWith('/leases'),
      })),
    })
    await clock.advance(60_000)
    expect(b.turns).toEqual([])
    await a.stop()
    await clock.advance(22_000)
    expect(b.election.leads).toBe(true)
    expect(b.errors.length).toBeLessThan(40)
  })

  it('takes over a deleted Lease at once', async () => {
    const a = candidates.add('a', {
      client: server.client(({ method }) => ({ refused: method === 'PUT' })),
    })
    await clock.advance(0)
    const b = candidates.add('b')
    await clock.advance(1)
    server.remove('/apis/coordination.k8s.io/v1/namespaces/n/leases/lease')
    await clock.advance(0)
    expect(b.election.leads).toBe(true)
    await clock.advance(10_500)
    expect(a.election.leads).toBe(false)
  })

  it.each([[{ metadata: {} }], [{ metadata: { resourceVersion: '1' }, spec: 5 }], [null]])(
    'asks again after the answer %j',
    async (answer) => {
      let wrong = true
      const right = server.client()
      const a = candidates.add('a', {
        client: new InProcessClient(clock, ({ query: _query, ...request }) =>
          wrong ? Promise.resolve(answer) : right.request(request as ApiRequest),
        ),
      })
      await clock.advance(10_000)
      expect(a.turns).toEqual([])
      expect(a.errors.length).toBeGreaterThan(3)
      wrong = false
      await clock.advance(2500)
      expect(a.election.leads).toBe(true)
    },
  )
})

describe('a leader', () => {
  it('renews by one request each 6.5 s, and reads nothing', async () => {
    candidates.add('a')
    await clock.advance(1)
    server.requests.length = 0
    await clock.advance(300_000)
    expect(server.requests).toHaveLength(46)
    expect(server.sent('PUT')).toHaveLength(46)
  })

  it('keeps leading if another program changes labels of the Lease', async () => {
    const a = candidates.add('a')
    await clock.advance(1)
    candidates.setLease({ ...candidates.lease?.spec }, { labels: { a: 'b' } })
    await clock.advance(60_000)
    expect(a.turns).toHaveLength(1)
    expect(candidates.lease?.metadata).toMatchObject({ labels: { a: 'b' } })
  })

  it('gives the Lease back at its end, and the next candidate takes over at once', async () => {
    const a = candidates.add('a')
    await clock.advance(0)
    const b = candidates.add('b')
    await clock.advance(5000)
    await a.stop()
    expect(candidates.holder).toBe('')
    expect(a.election.leads).toBe(false)
    await clock.advance(0)
    expect(b.election.leads).toBe(true)
  })

  it('keeps the Lease until its work has ended', async () => {
    const a = candidates.add('a', { endsIn: () => 60_000 })
    await clock.advance(0)
    const b = candidates.add('b')
    const stopped = a.stop()
    await clock.advance(59_999)
    expect(candidates.holder).toBe('a')
    expect(b.turns).toEqual([])
    expect(a.election.leads).toBe(false)
    await clock.advance(2500)
    await stopped
    expect(b.election.leads).toBe(true)
  })

  it.each([
    ['are refused', { refused: true }],
    ['never arrive', { arrivesIn: Number.POSITIVE_INFINITY }],
    ['are never answered', { answeredIn: Number.POSITIVE_INFINITY }],
  ])('whose requests %s ends its turn before another candidate takes over', async (_what, fate) => {
    let broken = false
    const a = candidates.add('a', {
      client: server.client(({ method }) => (broken && method === 'PUT' ? fate : {})),
    })
    await clock.advance(0)
    const b = candidates.add('b')
    await clock.advance(20_000)
    broken = true
    await clock.advance(60_000)
    const end = a.turns[0]?.to ?? Number.POSITIVE_INFINITY
    expect(end).toBeLessThanOrEqual(1_020_000 + 17_000)
    expect(b.turns[0]?.from ?? Number.POSITIVE_INFINITY).toBeGreaterThanOrEqual(end)
  })

  it('keeps leading if a renewal hangs', async () => {
    let requests = 0
    const a = candidates.add('a', {
      client: server.client(() =>
        ++requests === 5 ? { arrivesIn: Number.POSITIVE_INFINITY } : {},
      ),
    })
    await clock.advance(60_000)
    expect(a.turns).toEqual([{ from: 1_000_000 }])
  })

  it('counts from the time of its request: a late answer gives no more time', async () => {
    let fate: Fate = {}
    const a = candidates.add('a', {
      client: server.client(({ method }) => (method === 'PUT' ? fate : {})),
    })
    await clock.advance(6499)
    // Sent 6.5 s after the beginning, and answered 10 s after it; nothing arrives after that.
    fate = { answeredIn: 3500 }
    await clock.advance(3502)
    fate = { arrivesIn: Number.POSITIVE_INFINITY }
    await clock.advance(60_000)
    expect(a.turns[0]?.to).toBe(1_023_500)
  })

  it('ends its turn when it sees another holder of the Lease', async () => {
    const a = candidates.add('a')
    await clock.advance(5000)
    candidates.setLease({ holderIdentity: 'b', leaseDurationSeconds: 15 })
    await clock.advance(1500)
    expect(a.turns).toEqual([{ from: 1_000_000, to: 1_006_500 }])
    expect(a.election.leads).toBe(false)
    expect(candidates.holder).toBe('b')
  })

  it('continues after a restart', async () => {
    candidates.setLease({ holderIdentity: 'a', leaseDurationSeconds: 15 })
    const a = candidates.add('a')
    await clock.advance(0)
    expect(a.election.leads).toBe(true)
  })
})

describe('the end', () => {
  it('passes on the error of the work, and gives the Lease back', async () => {
    const election = new LeaderElection({
      client: server.client(),
      clock,
      namespace: 'n',
      name: 'lease',
      identity: 'a',
      onError: () => {},
    })
    const lead = async () => {
      throw new RangeError('bug')
    }
    await expect(election.run(new AbortController().signal, lead)).rejects.toThrow('bug')
    expect(candidates.holder).toBe('')
    expect(clock.sleeping).toEqual([])
  })

  it('gives back a Lease that it may have taken without an answer', async () => {
    const a = candidates.add('a', {
      client: server.client(({ method }) => (method === 'POST' ? { answeredIn: 1000 } : {})),
    })
    await clock.advance(500)
    expect(candidates.holder).toBe('a')
    expect(a.turns).toEqual([])
    await a.stop()
    expect(candidates.holder).toBe('')
  })

  it('gives back the Lease also if an own renewal arrives in between', async () => {
    const a = candidates.add('a', {
      client: server.client(({ method }) => (method === 'PUT' ? { arrivesIn: 100 } : {})),
    })
    await clock.advance(2050)
    const stopped = a.stop()
    await clock.advance(1000)
    await stopped
    expect(candidates.holder).toBe('')
    expect(a.errors).toEqual([])
  })

  it('leaves no timer behind', async () => {
    const a = candidates.add('a')
    await clock.advance(0)
    const b = candidates.add('b')
    await clock.advance(7000)
    await Promise.all([a.stop(), b.stop()])
    expect(clock.sleeping).toEqual([])
  })

  it('of work that ends without its signal starts no hot loop', async () => {
    candidates.add('a', { lead: async () => {} })
    await clock.advance(20_000)
    // Four requests for each turn: read and take, read and give back.
    expect(server.requests.length).toBeLessThan(50)
  })
})
