import { ManualClock } from '@akrijs/sdk/testing'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ApiClient, type ApiRequest } from './api-client.js'
import type { ApiClock } from './clock.js'
import { ApiError, ApiUnreachableError } from './errors.js'
import { LeaderElection } from './leader-election.js'

interface Lease {
  metadata: { name: string; namespace: string; resourceVersion?: string; [more: string]: unknown }
  spec: { holderIdentity: string; renewTime?: string; [more: string]: unknown }
}

/** What becomes of one request. Times in milliseconds; a request that does not arrive is never answered. */
interface Fate {
  readonly arrivesIn?: number
  readonly answeredIn?: number
  readonly refused?: boolean
}

/** One Lease on an API server that is as slow as a test wants. What has been sent arrives, also when nobody waits for it. */
class LeaseServer {
  lease: Lease | undefined
  requests = 0
  #version = 0
  readonly #clock: ManualClock

  constructor(clock: ManualClock) {
    this.#clock = clock
  }

  set(spec: Lease['spec'], metadata: object = {}): void {
    this.lease = { metadata: { name: 'lease', namespace: 'n', ...metadata, resourceVersion: String(++this.#version) }, spec }
  }

  client(fate: (request: ApiRequest) => Fate = () => ({})): ApiClient {
    return new LeaseClient(this.#clock, (request) => this.#serve(request, fate(request)))
  }

  async #serve(request: ApiRequest, { arrivesIn = 0, answeredIn = 0, refused = false }: Fate): Promise<unknown> {
    this.requests++
    if (arrivesIn > 0) await this.#sleep(arrivesIn)
    const answer = refused ? this.#refusal(500, 'InternalError') : this.#carryOut(request)
    if (answeredIn > 0) await this.#sleep(answeredIn)
    if (answer instanceof ApiError) throw answer
    return answer
  }

  #sleep(ms: number): Promise<void> {
    return ms === Number.POSITIVE_INFINITY ? new Promise(() => {}) : this.#clock.sleep(ms)
  }

  #carryOut({ method, body }: ApiRequest): unknown {
    if (method === 'GET') return this.lease === undefined ? this.#refusal(404, 'NotFound') : structuredClone(this.lease)
    const { metadata, spec } = structuredClone(body) as Lease
    if (method === 'POST' && this.lease !== undefined) return this.#refusal(409, 'AlreadyExists')
    if (method === 'PUT' && metadata.resourceVersion !== this.lease?.metadata.resourceVersion)
      return this.#refusal(409, 'Conflict')
    this.set(spec, metadata)
    return structuredClone(this.lease)
  }

  #refusal(status: number, reason: string): ApiError {
    return new ApiError('lease', { status, reason, message: reason })
  }
}

class LeaseClient extends ApiClient {
  readonly #serve: (request: ApiRequest) => Promise<unknown>

  constructor(clock: ApiClock, serve: (request: ApiRequest) => Promise<unknown>) {
    super({ access: { server: new URL('http://x'), credentials: async () => ({}) }, clock, userAgent: 'test' })
    this.#serve = serve
  }

  override request(request: ApiRequest): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(new ApiUnreachableError('aborted'))
      if (request.signal?.aborted) return onAbort()
      request.signal?.addEventListener('abort', onAbort, { once: true })
      this.#serve(structuredClone({ ...request, signal: undefined })).then(resolve, reject)
    })
  }
}

interface Candidate {
  readonly election: LeaderElection
  /** Of the clock, when a turn began or ended. */
  readonly turns: { readonly from: number; to?: number }[]
  readonly errors: unknown[]
  stop(): Promise<void>
}

let clock: ManualClock
let server: LeaseServer
let candidates: Candidate[]

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  server = new LeaseServer(clock)
  candidates = []
})

afterEach(async () => {
  await stopAll()
})

async function stopAll(): Promise<void> {
  const stopped = Promise.all(candidates.map(({ stop }) => stop()))
  // A server that hangs holds up the giving back for its time.
  await clock.advance(60_000)
  await stopped
}

interface CandidateOptions {
  readonly client?: ApiClient
  readonly clock?: ApiClock
  readonly random?: () => number
  /** How long the work goes on after its turn has ended, in milliseconds. */
  readonly endsIn?: () => number
  lead?(turn: AbortSignal): Promise<void>
}

function candidate(identity: string, options: CandidateOptions = {}): Candidate {
  const stop = new AbortController()
  const turns: Candidate['turns'] = []
  const errors: unknown[] = []
  const election = new LeaderElection({
    client: options.client ?? server.client(),
    clock: options.clock ?? clock,
    namespace: 'n',
    name: 'lease',
    identity,
    random: options.random ?? (() => 0),
    onError: (error) => errors.push(error),
  })
  const lead = async (turn: AbortSignal) => {
    const own: Candidate['turns'][number] = { from: clock.now() }
    turns.push(own)
    await new Promise((resolve) => turn.addEventListener('abort', resolve, { once: true }))
    const endsIn = options.endsIn?.() ?? 0
    if (endsIn > 0) await clock.sleep(endsIn)
    own.to = clock.now()
  }
  const ran = election.run(stop.signal, options.lead ?? lead)
  const one = {
    election,
    turns,
    errors,
    stop() {
      stop.abort()
      return ran
    },
  }
  candidates.push(one)
  return one
}

const holder = () => server.lease?.spec.holderIdentity

describe('a candidate', () => {
  it('takes a Lease that is not there, and renews it', async () => {
    const a = candidate('a')
    await clock.advance(0)
    expect(a.election.leads).toBe(true)
    expect(server.lease?.spec).toMatchObject({
      holderIdentity: 'a',
      leaseDurationSeconds: 15,
      renewTime: '1970-01-01T00:16:40.000000Z',
      acquireTime: '1970-01-01T00:16:40.000000Z',
      leaseTransitions: 0,
    })
    await clock.advance(60_000)
    expect(server.lease?.spec).toMatchObject({
      renewTime: '1970-01-01T00:17:40.000000Z',
      acquireTime: '1970-01-01T00:16:40.000000Z',
    })
    expect(a.turns).toEqual([{ from: 1_000_000 }])
  })

  it.each([
    ['far in the past', '1970-01-01T00:00:00.000000Z'],
    ['far in the future', '2099-01-01T00:00:00.000000Z'],
    ['unknown', undefined],
  ])(
    'takes a Lease over that has not changed for as long as it is good, by its own clock: last renewed %s',
    async (_when, renewTime) => {
      server.set({ holderIdentity: 'dead', leaseDurationSeconds: 15, leaseTransitions: 4, ...(renewTime ? { renewTime } : {}) })
      const a = candidate('a')
      await clock.advance(14_999)
      expect(a.turns).toEqual([])
      await clock.advance(2001)
      expect(a.election.leads).toBe(true)
      expect(server.lease?.spec).toMatchObject({ holderIdentity: 'a', leaseTransitions: 5 })
    },
  )

  it('waits as long as the Lease says, not as long as its own would be good', async () => {
    server.set({ holderIdentity: 'dead', leaseDurationSeconds: 100 })
    const a = candidate('a')
    await clock.advance(99_999)
    expect(a.turns).toEqual([])
    await clock.advance(2001)
    expect(a.election.leads).toBe(true)
  })

  it('does not take over at once a Lease that says that it is good for ever', async () => {
    server.set({ holderIdentity: 'b', leaseDurationSeconds: 2 ** 31 - 1 })
    const slept: number[] = []
    const a = candidate('a', {
      clock: {
        now: () => clock.now(),
        time: () => clock.time(),
        sleep: (ms, signal) => {
          slept.push(ms)
          return clock.sleep(ms, signal)
        },
      },
    })
    await clock.advance(60_000)
    expect(a.turns).toEqual([])
    // More than a timer can do is done at once.
    expect(Math.max(...slept)).toBeLessThan(2 ** 31)
  })

  it('leaves a Lease alone that is renewed', async () => {
    const a = candidate('a')
    await clock.advance(0)
    const b = candidate('b')
    await clock.advance(300_000)
    expect([a.turns.length, b.turns.length]).toEqual([1, 0])
  })

  it('keeps what others wrote on the Lease', async () => {
    server.set({ holderIdentity: '' }, { labels: { a: 'b' }, ownerReferences: [{ uid: '1' }] })
    candidate('a')
    await clock.advance(10_000)
    expect(server.lease?.metadata).toMatchObject({ labels: { a: 'b' }, ownerReferences: [{ uid: '1' }] })
  })

  it.each([['text'], [5], [{}], [{ metadata: {} }], [{ metadata: { resourceVersion: '1' }, spec: 5 }], [null]])(
    'goes on asking where the answer is %j',
    async (answer) => {
      let wrong = true
      const right = server.client()
      const a = candidate('a', {
        client: new LeaseClient(clock, (request) => (wrong ? Promise.resolve(answer) : right.request(request))),
      })
      await clock.advance(10_000)
      expect(a.turns).toEqual([])
      expect(a.errors.length).toBeGreaterThan(3)
      wrong = false
      await clock.advance(2500)
      expect(a.election.leads).toBe(true)
    },
  )

  it('of two leads only one when both are as fast', async () => {
    for (let i = 0; i < 5; i++) candidate(`candidate-${i}`, { client: server.client(() => ({ arrivesIn: 10, answeredIn: 10 })) })
    await clock.advance(60_000)
    expect(candidates.filter(({ election }) => election.leads)).toHaveLength(1)
    expect(candidates.flatMap(({ turns }) => turns)).toHaveLength(1)
  })
})

describe('a leader', () => {
  it('gives the Lease back at its end, and the next one takes over at once', async () => {
    const a = candidate('a')
    await clock.advance(0)
    const b = candidate('b')
    await clock.advance(5000)
    await a.stop()
    expect(holder()).toBe('')
    expect(a.election.leads).toBe(false)
    await clock.advance(2000)
    expect(b.election.leads).toBe(true)
  })

  it('keeps the Lease until its work has ended', async () => {
    const a = candidate('a', { endsIn: () => 60_000 })
    await clock.advance(0)
    const b = candidate('b')
    const stopped = a.stop()
    await clock.advance(59_999)
    expect(holder()).toBe('a')
    expect(b.turns).toEqual([])
    expect(a.election.leads).toBe(false)
    await clock.advance(2500)
    await stopped
    expect(b.election.leads).toBe(true)
  })

  it('that cannot renew ends its turn before another one takes over', async () => {
    let broken = false
    const a = candidate('a', { client: server.client(() => ({ refused: broken })) })
    await clock.advance(0)
    const b = candidate('b')
    await clock.advance(20_000)
    broken = true
    await clock.advance(60_000)
    const end = a.turns[0]?.to ?? Number.POSITIVE_INFINITY
    const begin = b.turns[0]?.from ?? 0
    expect(end).toBeLessThanOrEqual(1_020_000 + 10_000)
    expect(begin).toBeGreaterThan(end + 4000)
  })

  it.each([
    ['never arrive', { arrivesIn: Number.POSITIVE_INFINITY }],
    ['are never answered', { answeredIn: Number.POSITIVE_INFINITY }],
  ])('whose requests %s ends its turn before another one takes over', async (_what, fate) => {
    let broken = false
    const a = candidate('a', { client: server.client(({ method }) => (broken && method === 'PUT' ? fate : {})) })
    await clock.advance(0)
    const b = candidate('b')
    await clock.advance(20_000)
    broken = true
    await clock.advance(60_000)
    const end = a.turns[0]?.to ?? Number.POSITIVE_INFINITY
    expect(end).toBeLessThanOrEqual(1_020_000 + 10_000)
    expect(b.turns.every(({ from }) => from >= end)).toBe(true)
  })

  it('stays it where one renewal hangs', async () => {
    let requests = 0
    const a = candidate('a', { client: server.client(() => (++requests === 5 ? { arrivesIn: Number.POSITIVE_INFINITY } : {})) })
    await clock.advance(60_000)
    expect(a.turns).toEqual([{ from: 1_000_000 }])
  })

  it('counts from before it asked: an answer that comes late gives no more time', async () => {
    let fate: Fate = {}
    const a = candidate('a', { client: server.client(({ method }) => (method === 'PUT' ? fate : {})) })
    await clock.advance(1999)
    // Sent 2 s after the beginning, and answered 6.5 s after it; nothing arrives after that.
    fate = { answeredIn: 4500 }
    await clock.advance(4502)
    fate = { arrivesIn: Number.POSITIVE_INFINITY }
    await clock.advance(60_000)
    expect(a.turns[0]?.to).toBe(1_012_000)
  })

  it('ends its turn as soon as it sees that another one holds the Lease', async () => {
    const a = candidate('a')
    await clock.advance(5000)
    server.set({ holderIdentity: 'b', leaseDurationSeconds: 15 })
    await clock.advance(2000)
    expect(a.turns).toEqual([{ from: 1_000_000, to: 1_006_000 }])
    expect(a.election.leads).toBe(false)
    expect(holder()).toBe('b')
  })

  it('goes on after its own restart', async () => {
    server.set({ holderIdentity: 'a', leaseDurationSeconds: 15 })
    const a = candidate('a')
    await clock.advance(0)
    expect(a.election.leads).toBe(true)
  })

  it('whose time of day is set back ends its turn all the same', async () => {
    let broken = false
    let offset = 0
    const own: ApiClock = {
      now: () => clock.now(),
      time: () => clock.time() + offset,
      sleep: (ms, signal) => clock.sleep(ms, signal),
    }
    const a = candidate('a', { clock: own, client: server.client(() => ({ refused: broken })) })
    await clock.advance(4000)
    broken = true
    offset = -3_600_000
    await clock.advance(10_000)
    expect(a.turns[0]?.to).toBeLessThanOrEqual(1_014_000)
  })

  it('is not followed too early by one whose time of day is set forward', async () => {
    candidate('a')
    await clock.advance(0)
    let offset = 0
    const own: ApiClock = {
      now: () => clock.now(),
      time: () => clock.time() + offset,
      sleep: (ms, signal) => clock.sleep(ms, signal),
    }
    const b = candidate('b', { clock: own })
    await clock.advance(500)
    offset = 3_600_000
    await clock.advance(60_000)
    expect(b.turns).toEqual([])
  })
})

describe('the end', () => {
  it('hands over what the work throws, and gives the Lease back', async () => {
    const election = new LeaderElection({
      client: server.client(),
      clock,
      namespace: 'n',
      name: 'lease',
      identity: 'a',
      onError: () => {},
    })
    const lead = async () => {
      throw new RangeError('our mistake')
    }
    await expect(election.run(new AbortController().signal, lead)).rejects.toThrow('our mistake')
    expect(holder()).toBe('')
    expect(clock.sleeping).toEqual([])
  })

  it('gives back what it may have taken without knowing', async () => {
    const a = candidate('a', {
      client: server.client(({ method }) => (method === 'POST' ? { answeredIn: 1000 } : {})),
    })
    await clock.advance(500)
    expect(holder()).toBe('a')
    expect(a.turns).toEqual([])
    await a.stop()
    expect(holder()).toBe('')
  })

  it('gives back also where a renewal of its own comes in between', async () => {
    const a = candidate('a', { client: server.client(({ method }) => (method === 'PUT' ? { arrivesIn: 100 } : {})) })
    await clock.advance(2050)
    const stopped = a.stop()
    await clock.advance(1000)
    await stopped
    expect(holder()).toBe('')
    expect(a.errors).toEqual([])
  })

  it('leaves no timer behind', async () => {
    const a = candidate('a')
    await clock.advance(0)
    const b = candidate('b')
    await clock.advance(7000)
    await Promise.all([a.stop(), b.stop()])
    expect(clock.sleeping).toEqual([])
  })

  it('of work that ends by itself is not the beginning of a hot loop', async () => {
    candidate('a', { lead: async () => {} })
    await clock.advance(20_000)
    // Four requests for each turn: read and take, read and give back.
    expect(server.requests).toBeLessThan(50)
  })
})

describe('candidates on a bad network', () => {
  const world = fc.record({
    seed: fc.integer(),
    count: fc.integer({ min: 2, max: 3 }),
    failing: fc.double({ min: 0, max: 0.7, noNaN: true }),
    maxDelayMs: fc.constantFrom(0, 100, 3000, 8000),
    setsClock: fc.boolean(),
  })

  it('are never leaders at the same time, and one leads when the network is well again', async () => {
    await fc.assert(
      fc.asyncProperty(world, async ({ seed, count, failing, maxDelayMs, setsClock }) => {
        clock = new ManualClock(1_000_000)
        server = new LeaseServer(clock)
        candidates = []
        const random = randomOf(seed)
        let well = false
        const delay = () => (random() < 0.5 ? 0 : Math.floor(random() * maxDelayMs))
        const fate = (): Fate => {
          if (well) return {}
          if (random() >= failing) return { arrivesIn: delay(), answeredIn: delay() }
          const never = Number.POSITIVE_INFINITY
          return [
            { arrivesIn: never },
            { arrivesIn: delay(), answeredIn: never },
            { arrivesIn: delay(), refused: true },
            // Long after nobody waits for it any more.
            { arrivesIn: 5000 + Math.floor(random() * 30_000) },
          ][Math.floor(random() * 4)] as Fate
        }
        const offsets = Array.from({ length: count }, () => Math.floor((random() - 0.5) * 1e9))
        for (let i = 0; i < count; i++) {
          const own: ApiClock = {
            now: () => clock.now(),
            time: () => clock.time() + (offsets[i] ?? 0),
            sleep: (ms, signal) => clock.sleep(ms, signal),
          }
          // Whose clock is set during a request may be late by as long as that took.
          const endsIn = () => (setsClock ? 0 : Math.floor(random() * 4999))
          candidate(`candidate-${i}`, { client: server.client(fate), clock: own, random, endsIn })
        }
        for (let step = 0; step < 60; step++) {
          if (setsClock && random() < 0.3) offsets[Math.floor(random() * count)] = Math.floor((random() - 0.5) * 100_000)
          await clock.advance(5000)
        }
        well = true
        await clock.advance(60_000)
        expect(candidates.filter(({ election }) => election.leads)).toHaveLength(1)
        await stopAll()

        const turns = candidates.flatMap((one) => one.turns).toSorted((a, b) => a.from - b.from)
        for (const [i, { from }] of turns.entries())
          if (i > 0) expect(turns[i - 1]?.to ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(from)
      }),
      { numRuns: 40 },
    )
  }, 60_000)
})

/** Mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
