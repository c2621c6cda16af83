import type { ObjectKey } from '@akrijs/kube/objects'
import { type Clock, Listeners, runAfter } from '@akrijs/runtime'
import type { RegistrationProblem } from '../instances/served-instance.js'

/**
 * How long changes are gathered, in milliseconds: the registrations of thousands of plugins fail
 * together.
 */
const GATHER_MS = 1000

/** The resources of each Configuration that the kubelet does not have. */
export class RegistrationProblems {
  readonly #clock: Clock
  readonly #signal: AbortSignal
  readonly #byConfiguration = new Map<ObjectKey, Map<string, RegistrationProblem>>()
  readonly #changed = new Set<ObjectKey>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
  }

  of(configuration: ObjectKey): readonly RegistrationProblem[] {
    return [...(this.#byConfiguration.get(configuration)?.values() ?? [])]
  }

  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  set(
    configuration: ObjectKey,
    resourceName: string,
    problem: RegistrationProblem | undefined,
  ): void {
    const problems =
      this.#byConfiguration.get(configuration) ?? new Map<string, RegistrationProblem>()
    if (problems.get(resourceName)?.message === problem?.message) return
    if (problem === undefined) problems.delete(resourceName)
    else problems.set(resourceName, problem)
    if (problems.size > 0) this.#byConfiguration.set(configuration, problems)
    else this.#byConfiguration.delete(configuration)
    this.#tellLater(configuration)
  }

  #tellLater(configuration: ObjectKey): void {
    if (this.#changed.has(configuration)) return
    this.#changed.add(configuration)
    runAfter(this.#clock, GATHER_MS, this.#signal, () => {
      this.#changed.delete(configuration)
      if (!this.#signal.aborted) this.#listeners.tell(configuration)
    })
  }
}
