import { expect, vi } from 'vitest'
import type { ApiClient } from '../api-client.js'
import type { ApiObject } from '../object-cache.js'
import { Reflector, type ReflectorOptions } from '../reflector.js'
import type { TestClock } from './clock.js'
import { FakeApiServer } from './fake-api-server.js'

/** Nothing takes longer than a few milliseconds, unless the machine is busy. */
const LIMITS = { timeout: 45_000, interval: 2 }

export const THINGS = '/apis/akri.test/v1/things'

export interface Thing extends ApiObject {
  readonly value: unknown
}

/** Objects on a fake API server, and a reflector that follows them over HTTP. */
export class ReflectedThings {
  readonly api: FakeApiServer
  readonly client: ApiClient
  readonly stop = new AbortController()
  /** The names that listeners heard. */
  readonly changes: string[] = []
  /** Failures, and the milliseconds until the next attempt. */
  readonly errors: [error: string, retryInMs: number][] = []
  running: Promise<void> = Promise.resolve()
  readonly #clock: TestClock
  #reflector: Reflector<Thing> | undefined

  private constructor(clock: TestClock, api: FakeApiServer, client: ApiClient) {
    this.#clock = clock
    this.api = api
    this.client = client
  }

  static async open(clock: TestClock): Promise<ReflectedThings> {
    const api = new FakeApiServer(clock)
    return new ReflectedThings(clock, api, await api.open())
  }

  async close(): Promise<void> {
    this.stop.abort()
    await this.running
    await this.api.close()
  }

  get reflector(): Reflector<Thing> {
    return this.#reflector ?? expect.fail('nothing has begun')
  }

  put(name: string, value: unknown = 0): Thing {
    return this.api.put(pathOf(name), { value }) as unknown as Thing
  }

  remove(name: string): void {
    this.api.remove(pathOf(name))
  }

  /** The queries of the requests that came. */
  get queries(): URLSearchParams[] {
    return this.api.requests.map(({ query }) => query)
  }

  /** @param what `version`: lists of one object, which are for the version of the server */
  count(what: 'list' | 'watch' | 'version'): number {
    const kinds = this.queries.map((query) => {
      if (query.has('watch')) return 'watch'
      return query.get('limit') === '1' ? 'version' : 'list'
    })
    return kinds.filter((kind) => kind === what).length
  }

  begin(
    options: Partial<ReflectorOptions<Thing>> = {},
    timing: ConstructorParameters<typeof Reflector<Thing>>[1] = {},
  ): void {
    const reflector = new Reflector<Thing>(
      {
        client: this.client,
        clock: this.#clock,
        path: THINGS,
        parse: (object) => object as Thing,
        onError: (error, retryInMs) => this.errors.push([String(error), retryInMs]),
        ...options,
      },
      { random: () => 0, ...timing },
    )
    reflector.onChange((changed) => this.changes.push(changed.slice(2)), this.stop.signal)
    this.#reflector = reflector
    this.running = reflector.run(this.stop.signal)
  }

  /** Begins, and resolves when the watch is open. */
  async follow(...options: Parameters<ReflectedThings['begin']>): Promise<void> {
    this.begin(...options)
    await this.reflector.synced
    await this.watching()
    this.changes.length = 0
  }

  watching(): Promise<void> {
    return vi.waitFor(() => expect(this.api.watches.size).toBe(1), LIMITS)
  }

  /** The values in the cache, by name. */
  values(): Record<string, unknown> {
    return Object.fromEntries(
      this.reflector.list().map(({ metadata, value }) => [metadata.name, value]),
    )
  }

  /** The values on the server, by name. */
  truth(): Record<string, unknown> {
    return Object.fromEntries(
      Array.from(this.api.objects.values(), ({ metadata, value }) => [metadata.name, value]),
    )
  }

  converged(): Promise<void> {
    return vi.waitFor(() => expect(this.values()).toEqual(this.truth()), LIMITS)
  }

  /** Waits for a failure, and lets the time pass until the next attempt. */
  async afterFailures(count: number): Promise<void> {
    await vi.waitFor(() => expect(this.errors).toHaveLength(count), LIMITS)
    await this.#clock.advance(this.errors.at(-1)?.[1] ?? 0)
  }
}

function pathOf(name: string): string {
  return `/apis/akri.test/v1/namespaces/n/things/${name}`
}
