import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, vi } from 'vitest'
import { ApiClient } from '../api-client.js'
import { Reflector } from '../reflector.js'
import type { TestClock } from './clock.js'
import { Collection, type Thing } from './collection.js'

/** It takes a few milliseconds, but where a machine is busy. */
const PATIENCE = { timeout: 45_000, interval: 2 }

type Options = ConstructorParameters<typeof Reflector<Thing>>[0]

/** A collection behind a real socket, and what a reflector makes of it. */
export class ReflectedThings {
  readonly api: Collection
  readonly client: ApiClient
  readonly stop = new AbortController()
  /** The names that listeners were told. */
  readonly changes: string[] = []
  /** What failed, and after how many milliseconds it was to be tried again. */
  readonly errors: [error: string, retryInMs: number][] = []
  running: Promise<void> = Promise.resolve()
  readonly #clock: TestClock
  #reflector: Reflector<Thing> | undefined

  private constructor(clock: TestClock, api: Collection) {
    const { port } = api.server.address() as AddressInfo
    const access = { server: new URL(`http://127.0.0.1:${port}`), credentials: async () => ({}) }
    this.#clock = clock
    this.api = api
    this.client = new ApiClient({ access, clock, userAgent: 'test' })
  }

  static async open(clock: TestClock): Promise<ReflectedThings> {
    const api = new Collection()
    api.server.listen(0, '127.0.0.1')
    await once(api.server, 'listening')
    return new ReflectedThings(clock, api)
  }

  async close(): Promise<void> {
    this.stop.abort()
    await this.running
    this.client.close()
    this.api.server.closeAllConnections()
    await new Promise((resolve) => this.api.server.close(resolve))
  }

  get reflector(): Reflector<Thing> {
    return this.#reflector ?? expect.fail('nothing has begun')
  }

  begin(options: Partial<Options> = {}): void {
    const reflector = new Reflector<Thing>({
      client: this.client,
      clock: this.#clock,
      path: '/things',
      random: () => 1,
      parse: (object) => object as Thing,
      onError: (error, retryInMs) => this.errors.push([String(error), retryInMs]),
      ...options,
    })
    reflector.onChange((changed) => this.changes.push(changed.slice(2)), this.stop.signal)
    this.#reflector = reflector
    this.running = reflector.run(this.stop.signal)
  }

  /** Begun, and following. */
  async follow(options: Partial<Options> = {}): Promise<void> {
    this.begin(options)
    await this.reflector.synced
    await this.watching()
    this.changes.length = 0
  }

  watching(): Promise<void> {
    return vi.waitFor(() => expect(this.api.watches.size).toBe(1), PATIENCE)
  }

  /** What the reflector knows. */
  values(): Record<string, unknown> {
    return Object.fromEntries(
      this.reflector.list().map(({ metadata, value }) => [metadata.name, value]),
    )
  }

  /** What the server has. */
  truth(): Record<string, unknown> {
    return Object.fromEntries([...this.api.objects].map(([name, { value }]) => [name, value]))
  }

  converged(): Promise<void> {
    return vi.waitFor(() => expect(this.values()).toEqual(this.truth()), PATIENCE)
  }

  /** Waits until a failure was told, and lets the time pass until the next attempt. */
  async afterFailures(count: number): Promise<void> {
    await vi.waitFor(() => expect(this.errors).toHaveLength(count), PATIENCE)
    await this.#clock.advance(this.errors.at(-1)?.[1] ?? 0)
  }
}
