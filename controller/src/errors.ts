import { APPLY_CUSTOM_RESOURCES } from '@akrijs/api'
import { defineError, kindOf } from '@akrijs/runtime'

/** An object of another owner has the name that an object of the controller should have. */
export class NameTakenError extends defineError('AKRI_ERR_NAME_TAKEN', 'transient') {}

/** A broker has been deleted, and a finalizer keeps it from going. */
export class BrokerHeldError extends defineError('AKRI_ERR_BROKER_HELD', 'transient') {}

/** The installed custom resource is not of this version. */
export class OutdatedResourceError extends defineError('AKRI_ERR_OUTDATED_RESOURCE', 'transient') {
  constructor(resource: string, options?: ErrorOptions) {
    super(
      `the custom resource ${resource} has no status: update it by ${APPLY_CUSTOM_RESOURCES}`,
      options,
    )
  }
}

/** The cluster does not have the custom resource. */
export class MissingResourceError extends defineError('AKRI_ERR_MISSING_RESOURCE', 'transient') {
  constructor(resource: string, options?: ErrorOptions) {
    super(
      `there is no custom resource ${resource}: install it by ${APPLY_CUSTOM_RESOURCES}`,
      options,
    )
  }
}

/** Configurations are left after the time in which `akri-cleanup` should have deleted them. */
export class ConfigurationsLeftError extends defineError(
  'AKRI_ERR_CONFIGURATIONS_LEFT',
  'transient',
) {
  constructor(left: readonly string[], cause: unknown) {
    const names = left.slice(0, 10).join(', ')
    const which = left.length > 10 ? `${names} and ${left.length - 10} others` : names
    super(
      left.length === 0
        ? 'Configurations could not be listed or deleted'
        : `Configurations are left, which finalizers may hold: ${which}`,
      cause === undefined ? {} : { cause },
    )
  }
}

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
