import type { DeviceProblem, NodeStatus } from '@akrijs/api'
import { objectMessage } from '@akrijs/runtime'

/**
 * The status as a cluster stores it. A message can quote a handler, a device, or the author of a
 * Configuration.
 */
export function storedStatus(status: NodeStatus): NodeStatus {
  return {
    ...status,
    conditions: status.conditions.map((condition) => ({
      ...condition,
      message: objectMessage(condition.message),
    })),
  }
}

/** The problems as a cluster stores them: the reasons can be texts of handlers. */
export function storedProblems(problems: readonly DeviceProblem[]): readonly DeviceProblem[] {
  return problems.map((problem) => ({ ...problem, reason: objectMessage(problem.reason) }))
}

/** The problems that last until a handler reports again. The agent finds the others each time. */
export function reportedByHandler(
  problems: readonly DeviceProblem[] | undefined,
): readonly DeviceProblem[] | undefined {
  return problems?.filter(({ found }) => found === undefined)
}
