import { kindOf } from '@akrijs/runtime'

/** The failures of a pass over objects: one of them must not stop the work on the others. */
export class Failures {
  readonly #errors: unknown[] = []

  /** @returns the value of the work; undefined after a failure */
  async of<T>(work: Promise<T>): Promise<T | undefined> {
    try {
      return await work
    } catch (error) {
      this.#errors.push(error)
      return undefined
    }
  }

  /** @throws the first failure that a retry can mend, or else the first */
  throwFirst(): void {
    if (this.#errors.length === 0) return
    throw this.#errors.find((error) => kindOf(error) !== 'terminal') ?? this.#errors[0]
  }
}
