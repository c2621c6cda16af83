import type { NodeStatus } from '@akrijs/api'
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
