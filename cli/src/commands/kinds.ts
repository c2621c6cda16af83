import type { Configuration, Instance } from '@akrijs/api'
import { InvalidOptionError } from '@akrijs/runtime'
import { askAgent } from '../control/control-client.js'

/** The kinds of objects, as the paths of the API name them. */
type Kind = 'configurations' | 'instances'

const KINDS = new Map<string, Kind>([
  ['configurations', 'configurations'],
  ['configuration', 'configurations'],
  ['akric', 'configurations'],
  ['instances', 'instances'],
  ['instance', 'instances'],
  ['akrii', 'instances'],
])

/** Parses the name of a kind. @throws InvalidOptionError */
export function kindOf(text: string): Kind {
  const kind = KINDS.get(text.toLowerCase())
  if (kind === undefined)
    throw new InvalidOptionError(
      `${JSON.stringify(text)} is no kind; the kinds are configurations (akric) and ` +
        'instances (akrii)',
    )
  return kind
}

/** All objects of a kind. @throws NoAgentError */
export async function objectsOf(
  socket: string,
  kind: Kind,
): Promise<{ readonly items: readonly (Configuration | Instance)[] }> {
  return (await askAgent(socket, `/apis/akri.sh/v0/${kind}`)) as {
    items: (Configuration | Instance)[]
  }
}
