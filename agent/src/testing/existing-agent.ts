import { type Instance, type SlotName, slotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'

// An agent of the existing system, 0.13, as a model of how it reads and claims slots.

/** The agent would end, or serve nothing any more. */
export class ExistingAgentPanic extends Error {}

type Usage =
  | { readonly level: 'free' }
  | { readonly level: 'instance'; readonly node: string }
  | { readonly level: 'configuration'; readonly id: string; readonly node: string }

/** A slot that it asks for, with all claims of its node. */
interface ExistingClaim {
  readonly instance: Instance
  readonly slot: SlotName
  readonly id: string
  /** What it applies as the manager `dp-<node>`. */
  readonly deviceUsage: Readonly<Record<string, string>>
}

export class ExistingAgentModel {
  readonly node: NodeName
  #tables: readonly { readonly instance: Instance; readonly slots: readonly Usage[] }[] = []
  /** The Instance of each free id at the level of the Configuration. */
  #freeIds = new Map<string, Instance>()

  constructor(node: NodeName) {
    this.node = node
  }

  /** Reads the Instances of one Configuration. @throws ExistingAgentPanic */
  see(instances: readonly Instance[]): void {
    this.#tables = instances
      .filter(({ spec }) => spec.nodes.includes(this.node))
      .map((instance) => ({ instance, slots: readSlots(instance) }))
    const used = new Set(
      this.#tables.flatMap(({ slots }) =>
        slots.flatMap((usage) =>
          usage.level === 'configuration' && usage.node === this.node ? usage.id : [],
        ),
      ),
    )
    for (const id of used)
      if (!/-\d+$/.test(id)) throw new ExistingAgentPanic(`the id ${id} has no number`)
    this.#freeIds = new Map()
    let number = 0
    for (const { instance, slots } of this.#tables) {
      if (slots.every(({ level }) => level !== 'free')) continue
      const { configurationName } = instance.spec
      while (used.has(`${configurationName}-${number}`)) number++
      this.#freeIds.set(`${configurationName}-${number++}`, instance)
    }
  }

  /** The claim for a container that asks for a device of one Instance. */
  claimOf(name: string): ExistingClaim | undefined {
    const table = this.#tables.find(({ instance }) => instance.metadata.name === name)
    return table && this.#claimFree(table.instance, this.node)
  }

  /** The claim for a container that asks for any device. */
  claimAny(): ExistingClaim | undefined {
    for (const [id, instance] of this.#freeIds) {
      const claim = this.#claimFree(instance, `C:${id}:${this.node}`)
      if (claim !== undefined) return { ...claim, id }
    }
    return undefined
  }

  /** What it applies to free a slot. */
  ownWithout(instance: Instance, slot: SlotName): Readonly<Record<string, string>> {
    return Object.fromEntries(
      Object.entries(instance.spec.deviceUsage).filter(
        ([name, usage]) => name !== slot && holds(readUsage(usage), this.node),
      ),
    )
  }

  #claimFree(instance: Instance, usage: string): ExistingClaim | undefined {
    const slots = this.#tables.find((table) => table.instance === instance)?.slots ?? []
    const index = slots.findIndex(({ level }) => level === 'free')
    if (index < 0) return undefined
    const slot = slotName(instance.metadata.name, index)
    const own = this.ownWithout(instance, slot)
    return { instance, slot, id: slot, deviceUsage: { ...own, [slot]: usage } }
  }
}

function readSlots({ metadata, spec }: Instance): Usage[] {
  const slots: Usage[] = Array.from({ length: spec.capacity }, () => ({ level: 'free' }))
  for (const [slot, text] of Object.entries(spec.deviceUsage)) {
    const index = Number(slot.slice(slot.lastIndexOf('-') + 1))
    if (!Number.isSafeInteger(index) || index >= spec.capacity)
      throw new ExistingAgentPanic(`${slot} of ${metadata.name} is beyond ${spec.capacity}`)
    slots[index] = readUsage(text)
  }
  return slots
}

function readUsage(text: string): Usage {
  if (text === '') return { level: 'free' }
  const [first = '', id = '', node = '', ...rest] = text.split(':')
  if (!text.includes(':')) return { level: 'instance', node: first }
  if (first !== 'C' || id === '' || node === '' || rest.length > 0)
    throw new ExistingAgentPanic(`the usage ${text} cannot be read`)
  return { level: 'configuration', id, node }
}

function holds(usage: Usage, node: string): boolean {
  return usage.level !== 'free' && usage.node === node
}
