import type { ObjectStore } from '@akrijs/agent'
import type { Configuration, Instance } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube'
import { type ClusterState, specDigest } from '../state/state-file.js'

/** A copy of the objects of a cluster: changes show only after they are published. */
export class ClusterDraft {
  readonly configurations: DraftObjects<Configuration>
  readonly instances: DraftObjects<Instance>
  /** Configurations from before the restart that the files have not named since. */
  remembered: ClusterState['configurations']
  resourceVersion: number
  #forgot = false

  constructor(
    stores: {
      readonly configurations: ObjectStore<Configuration>
      readonly instances: ObjectStore<Instance>
    },
    { remembered, resourceVersion }: Pick<ClusterDraft, 'remembered' | 'resourceVersion'>,
  ) {
    this.configurations = new DraftObjects(stores.configurations)
    this.instances = new DraftObjects(stores.instances)
    this.remembered = remembered
    this.resourceVersion = resourceVersion
  }

  /** Whether the state file needs a change. */
  get changed(): boolean {
    return this.configurations.changed || this.instances.changed || this.#forgot
  }

  nextVersion(): string {
    this.resourceVersion++
    return String(this.resourceVersion)
  }

  forgetRemembered(): void {
    this.#forgot ||= Object.keys(this.remembered).some(
      (key) => this.configurations.get(key as ObjectKey) === undefined,
    )
    this.remembered = {}
  }

  /** The content of the state file. */
  state(): ClusterState {
    const named = this.configurations.list().map((configuration) => {
      const { uid, generation, creationTimestamp } = configuration.metadata
      return [
        keyOf(configuration),
        { uid, generation, creationTimestamp, spec: specDigest(configuration.spec) },
      ] as const
    })
    return {
      configurations: { ...this.remembered, ...Object.fromEntries(named) },
      instances: this.instances.list(),
      resourceVersion: this.resourceVersion,
    }
  }

  publish(): void {
    this.configurations.publish()
    this.instances.publish()
  }
}

/** The objects of one kind, with changes that the store does not have yet. */
class DraftObjects<
  T extends { readonly metadata: { readonly namespace: string; readonly name: string } },
> {
  readonly #store: ObjectStore<T>
  readonly #objects: Map<ObjectKey, T>
  readonly #touched = new Set<ObjectKey>()
  /** Whether the state file needs a change. */
  changed = false

  constructor(store: ObjectStore<T>) {
    this.#store = store
    this.#objects = new Map(store.list().map((object) => [keyOf(object), object]))
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key)
  }

  list(): readonly T[] {
    return [...this.#objects.values()]
  }

  put(object: T): void {
    this.putTransient(object)
    this.changed = true
  }

  /** A change that the state file does not need: it is valid for this run only. */
  putTransient(object: T): void {
    this.#objects.set(keyOf(object), object)
    this.#touched.add(keyOf(object))
  }

  remove(key: ObjectKey): void {
    if (!this.#objects.delete(key)) return
    this.#touched.add(key)
    this.changed = true
  }

  publish(): void {
    for (const key of this.#touched) {
      const object = this.#objects.get(key)
      if (object === undefined) this.#store.remove(key)
      else this.#store.put(object)
    }
  }
}
