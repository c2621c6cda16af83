import { InvalidOptionError } from '@akrijs/runtime'

/** The kinds of objects that `akri get` lists. */
export const KINDS = ['configurations', 'instances', 'nodes', 'handlers'] as const
export type Kind = (typeof KINDS)[number]

/** The other names of a kind. */
const SHORT: Readonly<Record<string, Kind>> = { akric: 'configurations', akrii: 'instances' }

/** Parses the name of a kind: of one object, of several, or short. @throws InvalidOptionError */
export function kindOf(text: string): Kind {
  const name = text.toLowerCase()
  const kind =
    KINDS.find((each) => each === name || each === `${name}s`) ??
    (Object.hasOwn(SHORT, name) ? SHORT[name] : undefined)
  if (kind !== undefined) return kind
  throw new InvalidOptionError(
    `${JSON.stringify(text)} is no kind; the kinds are configurations (akric), instances ` +
      '(akrii), nodes and handlers',
  )
}
