import {
  type Compatibility,
  configurationFindings,
  existingSystemProblems,
  type Finding,
  type KubernetesTypes,
  type Problem,
} from '@akrijs/api'
import { type Clock, type Logger, messageOf, valueAt } from '@akrijs/runtime'
import { isSameJson } from '../json.js'
import type { AdmissionRequest, Verdict } from './admission-review.js'
import { detailsProblems, type Handlers, handlerWarnings } from './handler-details.js'
import type { NamesInUse } from './names-in-use.js'
import { referenceWarnings } from './reference-warnings.js'

/** What happens to a Configuration that cannot be checked, as `failurePolicy` of a webhook. */
export type FailurePolicy = 'Fail' | 'Ignore'

interface ReviewerOptions {
  /** The types of the cluster, or bundled types until the cluster's are read. */
  types(): KubernetesTypes
  /** Whether the types are not those of the cluster, which may know more fields. @default false */
  readonly typesAreBundled?: () => boolean
  readonly handlers: Handlers
  readonly names: NamesInUse
  readonly failurePolicy: FailurePolicy
  /** The other system that reads the Configurations too. @default off */
  readonly compatibility?: Compatibility
  readonly clock: Clock
  readonly log: Logger
}

/** The most warnings of a Configuration: API servers cut longer lists. */
const MAX_WARNINGS = 10

/** Reviews Configurations. */
export class Reviewer {
  readonly #options: ReviewerOptions

  constructor(options: ReviewerOptions) {
    this.#options = options
  }

  async review(request: AdmissionRequest): Promise<Verdict> {
    const { operation, object, oldObject } = request
    if (operation === 'DELETE' || operation === 'CONNECT')
      return { outcome: 'allowed', warnings: [] }
    if (object === undefined)
      return {
        outcome: 'denied',
        problems: [{ path: '', message: 'AdmissionRequest object contains no data' }],
        warnings: [],
      }
    // A Configuration that was wrong before the webhook was installed can still get labels, lose
    // finalizers, and be deleted.
    if (
      operation === 'UPDATE' &&
      oldObject !== undefined &&
      isSameJson(valueAt(object, 'spec'), valueAt(oldObject, 'spec'))
    )
      return { outcome: 'allowed', warnings: [] }
    const { handlers, clock, failurePolicy, compatibility = 'off' } = this.#options
    const findings = this.#findings(object)
    const problems: Problem[] = findings
      .filter(({ level }) => level === 'problem')
      .map(({ path, message }) => ({ path, message }))
    if (compatibility !== 'off') problems.push(...existingSystemProblems(object))
    const unchecked: string[] = []
    problems.push(
      ...(await this.#unlessFailed(() => detailsProblems(object, handlers, clock), unchecked)),
    )
    // An existing object keeps its name: only a new object must have a free name.
    if (operation === 'CREATE' && problems.every(({ path }) => path !== 'metadata.name'))
      problems.push(...(await this.#unlessFailed(() => this.#namesakes(request), unchecked)))
    const home = homeOf(request)
    const warnings = [
      ...findings
        .filter(({ level }) => level === 'warning')
        .slice(0, MAX_WARNINGS)
        .map(({ path, message }) => `${path}: ${message}`),
      ...handlerWarnings(object, handlers),
      ...(home === undefined ? [] : referenceWarnings(object, home)),
    ]
    if (problems.length > 0) return { outcome: 'denied', problems, warnings }
    if (unchecked.length > 0 && failurePolicy === 'Fail')
      return { outcome: 'undecided', reasons: unchecked }
    return { outcome: 'allowed', warnings: [...warnings, ...unchecked] }
  }

  #findings(object: unknown): Finding[] {
    const { types, typesAreBundled } = this.#options
    const usedIn = typesAreBundled?.() ? 'otherCluster' : 'cluster'
    return configurationFindings(object, { types: types(), usedIn })
  }

  async #namesakes(request: AdmissionRequest): Promise<Problem[]> {
    const name = valueAt(request.object, 'metadata', 'name')
    const home = homeOf(request)
    return home !== undefined && typeof name === 'string'
      ? this.#options.names.problems(home, name)
      : []
  }

  async #unlessFailed<T>(check: () => Promise<T[]>, unchecked: string[]): Promise<T[]> {
    try {
      return await check()
    } catch (error) {
      const message = messageOf(error)
      unchecked.push(`it cannot be checked at present: ${message}`)
      this.#options.log.error({ err: error }, 'check failed')
      return []
    }
  }
}

/** The namespace of the Configuration. */
function homeOf({ namespace, object }: AdmissionRequest): string | undefined {
  const home = namespace ?? valueAt(object, 'metadata', 'namespace')
  return typeof home === 'string' ? home : undefined
}
