import type { ConfigurationManifest } from './configuration-schema.js'
import { possibleOwner } from './names.js'

interface FiledConfiguration {
  readonly file: string
  readonly configuration: Pick<ConfigurationManifest, 'name' | 'namespace'>
}

interface NameClash<T> {
  readonly item: T
  readonly message: string
}

/**
 * The Configurations of files that have no right to their names. Names of resources have no
 * namespace. The first Configuration of a name counts, and none counts whose name another
 * Configuration could give to an Instance.
 */
export function nameClashes<T extends FiledConfiguration>(items: readonly T[]): NameClash<T>[] {
  const byName = new Map<string, T>()
  for (const item of items)
    if (!byName.has(item.configuration.name)) byName.set(item.configuration.name, item)
  return items.flatMap((item) => {
    const { name } = item.configuration
    const first = byName.get(name)
    if (first !== undefined && first !== item) {
      const { namespace } = first.configuration
      return {
        item,
        message:
          `there is a Configuration ${name} in ${first.file} already ` + `(namespace ${namespace})`,
      }
    }
    const owner = byName.get(possibleOwner(name) ?? '')
    if (owner === undefined) return []
    return {
      item,
      message:
        `${name} could be the name of an Instance of the Configuration ` +
        `${owner.configuration.name} in ${owner.file}; write another name`,
    }
  })
}
