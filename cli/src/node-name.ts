import { InvalidOptionError } from '@akrijs/runtime'
import { isDnsName } from '@akrijs/runtime/program'

/**
 * The name of a node from a host name, which may have capitals, `_` or a final dot.
 * @throws InvalidOptionError if the host name has no valid character
 */
export function nodeNameOfHost(hostname: string): string {
  const name = hostname
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, '-')
    .slice(0, 253)
    .split('.')
    .map((part) => part.replace(/^-+|-+$/g, ''))
    .filter((part) => part !== '')
    .join('.')
  if (isDnsName(name)) return name
  throw new InvalidOptionError(
    `the host name ${JSON.stringify(hostname)} gives no name of a node; choose a name with --node`,
  )
}
