import type { ObjectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import { type BrokerProblem, writeProblem } from './broker-problem.js'

type OwnerKind = 'Instance' | 'Configuration'

/** The failures of the last attempts to bring the brokers of an owner to its spec. */
export class BrokerFailures {
  readonly #problems = new Map<string, BrokerProblem>()
  readonly #listeners = new Listeners<[kind: OwnerKind, owner: ObjectKey]>()

  of(kind: OwnerKind, owner: ObjectKey): BrokerProblem | undefined {
    return this.#problems.get(`${kind} ${owner}`)
  }

  /** Calls back after the problem of an owner has changed. */
  onChange(listener: (kind: OwnerKind, owner: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  /** Does the work, and keeps its failure until an attempt succeeds. */
  async watch<T>(kind: OwnerKind, owner: ObjectKey, work: () => Promise<T>): Promise<T> {
    try {
      const result = await work()
      this.#set(kind, owner, undefined)
      return result
    } catch (error) {
      // Without a judgement of the API server the last one stays.
      const problem = writeProblem(error)
      if (problem !== undefined) this.#set(kind, owner, problem)
      throw error
    }
  }

  #set(kind: OwnerKind, owner: ObjectKey, problem: BrokerProblem | undefined): void {
    const id = `${kind} ${owner}`
    const before = this.#problems.get(id)
    if (before?.reason === problem?.reason && before?.message === problem?.message) return
    if (problem === undefined) this.#problems.delete(id)
    else this.#problems.set(id, problem)
    this.#listeners.tell(kind, owner)
  }
}
