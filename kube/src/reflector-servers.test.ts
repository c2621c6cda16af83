import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ApiClient, type ApiRequest } from './api-client.js'
import { ApiError, ApiUnreachableError } from './errors.js'
import { Reflector } from './reflector.js'
import { THINGS, type Thing } from './testing/things.js'

interface Write {
  readonly name: string
  readonly isGone: boolean
  /** Whether the cache observes the answer. */
  readonly isObserved: boolean
}

/** What one of several API servers does with the next request. */
interface Turn {
  /** Changes just before the request. */
  readonly writes: readonly Write[]
  /** How many changes the memory of the server is behind. */
  readonly behind: number
  /** How many events a watch shows before its end. */
  readonly events: number
  readonly end: 'ends' | 'breaks' | 'forgets' | 'stays'
}

const TURN: fc.Arbitrary<Turn> = fc.record({
  writes: fc.array(
    fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      isGone: fc.boolean(),
      isObserved: fc.boolean(),
    }),
    { maxLength: 3 },
  ),
  behind: fc.nat(6),
  events: fc.nat(4),
  end: fc.constantFrom('ends', 'breaks', 'forgets'),
})
const LAST_TURN: Turn = { writes: [], behind: 0, events: Number.POSITIVE_INFINITY, end: 'stays' }

interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: Thing
}

/** API servers with one store. Each answers from a memory that may be behind the store. */
class Servers extends ApiClient {
  onAnswered: (thing: Thing) => void = () => {}
  readonly turns: Turn[]
  readonly #streams: boolean
  readonly #changes: Change[] = []

  constructor(turns: readonly Turn[], streams: boolean) {
    super({
      access: { server: new URL('http://x'), credentials: async () => ({}) },
      clock: new ManualClock(),
      userAgent: 'test',
      onWarning: () => undefined,
    })
    this.turns = [...turns]
    this.#streams = streams
  }

  get version(): number {
    return this.#changes.length
  }

  /** The things at a version. */
  at(version: number): Thing[] {
    const things = new Map<string, Thing>()
    for (const { type, object } of this.#changes.slice(0, version))
      if (type === 'DELETED') things.delete(object.metadata.name)
      else things.set(object.metadata.name, object)
    return [...things.values()]
  }

  override async request({ query }: ApiRequest): Promise<unknown> {
    const { behind } = this.#next()
    const since = query?.resourceVersion
    const version = since === undefined ? this.version : this.#memory(behind, since)
    return { metadata: { resourceVersion: String(version) }, items: this.at(version) }
  }

  override async *lines(
    { query }: ApiRequest,
    signal: AbortSignal,
  ): AsyncGenerator<string, void, void> {
    const isStream = query?.sendInitialEvents === true
    if (isStream && !this.#streams) throw refusal(422)
    const { behind, events, end } = this.#next()
    let since = Number(query?.resourceVersion)
    if (isStream) {
      since = this.#memory(behind, since)
      for (const object of this.at(since)) yield JSON.stringify({ type: 'ADDED', object })
      if (end === 'breaks') throw new ApiUnreachableError('broken')
      const annotations = { 'k8s.io/initial-events-end': 'true' }
      const metadata = { resourceVersion: String(since), annotations }
      yield JSON.stringify({ type: 'BOOKMARK', object: { metadata } })
    } else if (end === 'forgets') throw refusal(410)
    for (const change of this.#changes.slice(since).slice(0, events)) yield JSON.stringify(change)
    if (end === 'stays') await new Promise((resolve) => signal.addEventListener('abort', resolve))
  }

  #next(): Turn {
    const turn = this.turns.shift() ?? LAST_TURN
    for (const write of turn.writes) this.#write(write)
    return turn
  }

  #write({ name, isGone, isObserved }: Write): void {
    const isThere = this.at(this.version).some(({ metadata }) => metadata.name === name)
    const resourceVersion = String(this.version + 1)
    const object = { metadata: { namespace: 'n', name, resourceVersion }, value: 0 }
    const type = isThere ? (isGone ? 'DELETED' : 'MODIFIED') : 'ADDED'
    this.#changes.push({ type, object })
    if (type !== 'DELETED' && isObserved) this.onAnswered(object)
  }

  /** The version of a server's memory that is so old, and has reached the version. */
  #memory(behind: number, since: unknown): number {
    const version = Math.max(0, this.version - behind)
    if (version < Number(since)) throw refusal(504)
    return version
  }
}

function refusal(status: number): ApiError {
  return new ApiError('', { status, reason: '', message: '' })
}

it.each([
  ['lists', false],
  ['streams', true],
])('a cache goes not back in time, whatever server answers its %s', async (_what, streams) => {
  await fc.assert(
    fc.asyncProperty(fc.array(TURN, { maxLength: 20 }), async (turns) => {
      const servers = new Servers(turns, streams)
      const clock = new ManualClock()
      const stop = new AbortController()
      const reflector = new Reflector<Thing>(
        {
          client: servers,
          clock,
          path: THINGS,
          parse: (object) => object as Thing,
          onError: () => {},
        },
        { random: () => 0 },
      )
      servers.onAnswered = (thing) => reflector.observe(thing)
      const newest = new Map<string, number>()
      reflector.onChange((key) => {
        const shown = reflector.get(key)
        if (shown === undefined) return
        const version = Number(shown.metadata.resourceVersion)
        expect(version).toBeGreaterThan(newest.get(key) ?? 0)
        newest.set(key, version)
      }, stop.signal)
      let hasEnded = false
      const running = reflector.run(stop.signal).finally(() => {
        hasEnded = true
      })
      const state = (things: readonly Thing[]) =>
        things.map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`).toSorted()
      // Failures wait for half a minute at most, and a silent watch a minute longer.
      for (let rest = 4; rest > 0 && !hasEnded; rest -= servers.turns.length > 0 ? 0 : 1) {
        await clock.advance(30_000)
        await new Promise((resolve) => setImmediate(resolve))
      }
      stop.abort()
      await running
      expect(state(reflector.list())).toEqual(state(servers.at(servers.version)))
    }),
    { numRuns: 80 },
  )
})
