import { ApiError, keyOf, type ObjectKey, PODS, type RecheckAfter, Resource } from '@akrijs/kube'
import { type Job, recordOf } from '../kubernetes-objects.js'
import type { Term } from '../term.js'
import { type BrokerProblem, isRefusal, refusal } from './broker-problem.js'

// The status of a Job does not show that its Pods are refused: only Events do, which the controller
// may not read. It asks the API server itself whether it would create such a Pod (dry run).

/** How long a Job may have no Pod before the API server is asked, in milliseconds. */
const GRACE_MS = 10_000
/** The time between two questions for one Configuration, in milliseconds. */
const REPEAT_MS = 30_000
/** The limit of a question, in milliseconds: a webhook may take part in the answer. */
const TIMEOUT_MS = 10_000

interface Question {
  readonly uid: string
  /** When to ask next, by `monotonicMs`. */
  readonly dueAt: number
  readonly problem: BrokerProblem | undefined
}

/** Why Jobs have no Pods: asks for one Job of each Configuration, which stands for the others. */
export class RefusedJobs {
  readonly #term: Term
  readonly #pods: Resource
  readonly #questions = new Map<ObjectKey, Question>()

  constructor(term: Term) {
    this.#term = term
    this.#pods = new Resource(term.client, PODS)
  }

  /** @param job a Job of the Configuration without Pods; undefined if there is none */
  async check(
    configuration: ObjectKey,
    job: Job | undefined,
    signal: AbortSignal,
    recheckAfter: RecheckAfter,
  ): Promise<BrokerProblem | undefined> {
    if (job === undefined) {
      this.#questions.delete(configuration)
      return undefined
    }
    const { clock } = this.#term
    const { uid } = job.metadata
    const now = clock.monotonicMs()
    const before = this.#questions.get(configuration)
    let question =
      before?.uid === uid ? before : { uid, dueAt: now + GRACE_MS, problem: before?.problem }
    if (question.dueAt <= now)
      question = { uid, dueAt: now + REPEAT_MS, problem: await this.#ask(job, signal) }
    this.#questions.set(configuration, question)
    recheckAfter(question.dueAt - now)
    return question.problem
  }

  async #ask(job: Job, signal: AbortSignal): Promise<BrokerProblem | undefined> {
    const { state } = this.#term
    const { name, namespace } = job.metadata
    const options = { signal, timeoutMs: TIMEOUT_MS }
    try {
      const found = await state.jobs.api.get(keyOf(job), options)
      // Its Pods are not asked for any more.
      if (found === undefined) return undefined
      const template = recordOf(recordOf(recordOf(found).spec).template)
      // The name of the Job, and no random name: the answer has it, and should stay the same.
      const metadata = { ...recordOf(template.metadata), name, namespace }
      const pod = { apiVersion: 'v1', kind: 'Pod', ...template, metadata }
      await this.#pods.create(namespace, pod, { ...options, dryRun: true })
      return undefined
    } catch (error) {
      return ApiError.is(error) && isAnswer(error) && isRefusal(error)
        ? refusal(error.answer)
        : undefined
    }
  }
}

/** Some webhooks answer no such questions. Without its namespace, the Job is gone too. */
function isAnswer({ status, answer }: ApiError): boolean {
  return status !== 404 && !/ does not support dry ?run/i.test(answer)
}
