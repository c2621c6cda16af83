import type { Configuration, Instance } from '@akrijs/api'
import { askAgent } from '../control/control-client.js'
import { UsageError } from '../errors.js'

/** The kinds of objects that can be asked for, as the paths of the API name them. */
export type Kind = 'configurations' | 'instances'

const KINDS: Readonly<Record<string, Kind>> = {
  configurations: 'configurations',
  configuration: 'configurations',
  akric: 'configurations',
  instances: 'instances',
  instance: 'instances',
  akrii: 'instances',
}

/** What somebody has typed for a kind. @throws UsageError */
export function kindOf(text: string): Kind {
  const kind = KINDS[text.toLowerCase()]
  if (kind === undefined)
    throw new UsageError(
      `${JSON.stringify(text)} is not known; there are configurations (akric) and instances (akrii)`,
    )
  return kind
}

/** All objects of a kind that the agent has. @throws NoAgentError */
export async function objectsOf(
  socket: string,
  kind: Kind,
): Promise<{ readonly items: readonly (Configuration | Instance)[] }> {
  return (await askAgent(socket, `/apis/akri.sh/v0/${kind}`)) as {
    items: (Configuration | Instance)[]
  }
}
