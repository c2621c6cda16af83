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

  /** @throws the first failure, if there is one */
  throwFirst(): void {
    if (this.#errors.length > 0) throw this.#errors[0]
  }
}
