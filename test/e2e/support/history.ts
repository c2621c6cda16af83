import type { World } from './world.js'

interface Versioned {
  readonly metadata: { readonly name: string; readonly resourceVersion: string }
}

interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'ERROR'
  readonly object: T
}

/**
 * All events of a kind in the world's namespace, in order and without a gap. Polling would miss
 * some.
 */
export class History<T extends Versioned> {
  readonly #world: World
  readonly #kind: string
  readonly #end = new AbortController()
  readonly #events: WatchEvent<T>[] = []
  #following: Promise<void> = Promise.resolve()

  private constructor(world: World, kind: string) {
    this.#world = world
    this.#kind = kind
  }

  /** Starts now; an existing object counts as created now. */
  static async begin<T extends Versioned>(world: World, kind: string): Promise<History<T>> {
    const history = new History<T>(world, kind)
    const path = world.api(kind).path(world.namespace)
    const list = (await world.client.request({ method: 'GET', path })) as {
      items: T[]
      metadata: { resourceVersion: string }
    }
    for (const object of list.items) history.#events.push({ type: 'ADDED', object })
    history.#following = history.#follow(path, list.metadata.resourceVersion)
    return history
  }

  /** Every state of every object. */
  get states(): T[] {
    return this.#events.map(({ object }) => object)
  }

  /** The objects after each event. */
  get moments(): T[][] {
    const now = new Map<string, T>()
    return this.#events.map(({ type, object }) => {
      if (type === 'DELETED') now.delete(object.metadata.name)
      else now.set(object.metadata.name, object)
      return [...now.values()]
    })
  }

  /** @throws if the history can have a gap */
  async end(): Promise<void> {
    this.#end.abort()
    await this.#following
  }

  async #follow(path: string, since: string): Promise<void> {
    let resourceVersion = since
    const { signal } = this.#end
    while (!signal.aborted) {
      const request = { method: 'GET' as const, path, query: { watch: true, resourceVersion } }
      try {
        for await (const line of this.#world.client.lines(request, signal)) {
          const event = JSON.parse(line) as WatchEvent<T>
          if (event.type === 'ERROR')
            throw new TypeError(`the history of ${this.#kind} has a gap: ${line}`)
          this.#events.push(event)
          resourceVersion = event.object.metadata.resourceVersion
        }
      } catch (error) {
        if (!signal.aborted) throw error
      }
    }
  }
}
