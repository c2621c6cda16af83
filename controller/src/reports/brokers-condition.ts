import type { Condition } from '@akrijs/api'
import { objectMessage } from '@akrijs/runtime'
import type { BrokerCensus } from '../brokers/broker-census.js'
import { type BrokerProblem, PROBLEM_REASONS, ROLLING_OUT } from '../brokers/broker-problem.js'
import { conditionOf } from './worst-node.js'

const STUCK = 'RolloutStuck'

/**
 * Reasons that an Event tells of too: of problems that no status of a Pod shows, and of a roll-out
 * that waits.
 */
export const EVENT_REASONS: ReadonlySet<string> = new Set<BrokerProblem['reason'] | typeof STUCK>([
  'BrokerRefused',
  'QuotaExceeded',
  'NoUsableNode',
  STUCK,
])

/**
 * The condition `BrokersReady` of a Configuration.
 * @param before the condition until now: with the same status it keeps its time
 * @param now the time, as ISO 8601
 */
export function brokersCondition(
  { what, desired, updated, ready, problems, rollout }: BrokerCensus,
  before: Condition | undefined,
  now: string,
): Condition {
  const problem = first(problems)
  const isReady = ready >= desired && problem === undefined && rollout === undefined
  const status = isReady ? 'True' : 'False'
  const failing = problem === undefined ? '' : `, ${problems.length} failed: ${problem.message}`
  const progress = rollout === undefined ? '' : `, ${updated} of ${desired} are updated`
  const waiting =
    rollout?.isStuck && problem === undefined && rollout.waitsFor !== undefined
      ? `: Pod ${rollout.waitsFor} is not ready`
      : ''
  const pending = rollout !== undefined ? ROLLING_OUT : isReady ? 'Ready' : 'Starting'
  const reason = rollout?.isStuck ? STUCK : (problem?.reason ?? pending)
  const text = `${ready} of ${desired} ${what} are ready${progress}${waiting}${failing}`
  const finding = { status, reason, message: objectMessage(text) } as const
  return conditionOf('BrokersReady', finding, before, now)
}

/** The same of the same problems, in whatever order they come: each change is a write. */
function first(problems: readonly BrokerProblem[]): BrokerProblem | undefined {
  const rankOf = ({ reason }: BrokerProblem) => PROBLEM_REASONS.indexOf(reason)
  const [worst] = problems.toSorted(
    (a, b) => rankOf(a) - rankOf(b) || (a.message < b.message ? -1 : 1),
  )
  return worst
}
