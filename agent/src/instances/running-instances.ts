import type { InstanceName } from '@akrijs/api'

/** An Instance that this node serves. */
export interface RunningInstance {
  /** The id of its device. */
  readonly id: string
  /** Whether it has a resource of its own. */
  readonly hasResource: boolean
  /** Of the plan that its plugin follows; undefined if it may not follow yet. */
  readonly hash: string | undefined
}

/** The Instances of one Configuration that this node serves. */
export class RunningInstances {
  readonly #byName = new Map<InstanceName, RunningInstance>()
  #resources = 0

  /** How many Instances have a resource of their own. */
  get resources(): number {
    return this.#resources
  }

  get names(): InstanceName[] {
    return [...this.#byName.keys()]
  }

  [Symbol.iterator](): Iterator<[InstanceName, RunningInstance]> {
    return this.#byName[Symbol.iterator]()
  }

  get(name: InstanceName): RunningInstance | undefined {
    return this.#byName.get(name)
  }

  set(name: InstanceName, running: RunningInstance): void {
    this.delete(name)
    this.#byName.set(name, running)
    if (running.hasResource) this.#resources++
  }

  delete(name: InstanceName): void {
    if (this.#byName.get(name)?.hasResource === true) this.#resources--
    this.#byName.delete(name)
  }
}
