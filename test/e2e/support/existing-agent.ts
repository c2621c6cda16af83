import type { World } from './world.js'

/**
 * Writes Configurations and Instances as an agent of the existing system does: by server-side
 * apply, without force, as field managers with the name of its node.
 */
export class ExistingAgent {
  readonly #world: World
  readonly node: string

  constructor(world: World, node: string) {
    this.#world = world
    this.node = node
  }

  /** Its finalizer, which it leaves when it ends. */
  async finalize(kind: 'Configuration' | 'Instance', name: string): Promise<void> {
    await this.#apply(kind, name, `${this.node}-fin`, { metadata: { finalizers: [this.node] } })
  }

  /** Joins an Instance, or creates it. */
  async join(name: string, spec: object, metadata: object = {}): Promise<void> {
    const joined = { ...spec, nodes: [this.node], deviceUsage: {} }
    await this.#apply('Instance', name, this.node, { metadata, spec: joined })
  }

  /** Claims these slots, and frees all other slots of its node. */
  async claim(name: string, deviceUsage: Readonly<Record<string, string>>): Promise<void> {
    await this.#apply('Instance', name, `dp-${this.node}`, { spec: { deviceUsage } })
  }

  async #apply(
    kind: 'Configuration' | 'Instance',
    name: string,
    manager: string,
    { metadata, ...rest }: { readonly metadata?: object; readonly spec?: object },
  ): Promise<void> {
    const { client, namespace } = this.#world
    const object = { apiVersion: 'akri.sh/v0', kind, metadata: { ...metadata, name }, ...rest }
    await client.request({
      method: 'PATCH',
      path: `${this.#world.api(kind).path(namespace)}/${name}`,
      patch: 'apply',
      query: { fieldManager: manager, force: false },
      body: object,
    })
  }
}
