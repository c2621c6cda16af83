import { isBuiltin } from 'node:module'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }

/** The texts of a project that come from its name. */
export interface ProjectNames {
  /** The name of the npm package, such as `@me/my-sensor`. */
  readonly package: string
  /** The `discoveryHandler.name` of Configurations, and the name of objects in Kubernetes. */
  readonly handler: string
  /** The prefix of the properties of devices, such as `MY_SENSOR`. */
  readonly prefix: string
}

/** So that the names of resources, `<name>-<16 digits>`, fit into 63 characters. */
const MAX_HANDLER = 40
/** Of npm, for new packages. */
const MAX_PACKAGE = 214

/** A label of Kubernetes that is also a name of a handler and of a package. */
const HANDLER = /^[a-z]([-a-z0-9]*[a-z0-9])?$/
const SCOPE = /^@[a-z0-9-][a-z0-9-._]*$/

/** Words that are no texts in YAML 1.1 or 1.2. */
const YAML_WORDS = /^(null|true|false|yes|no|on|off|y|n)$/

/** Handlers that every agent may have already, by the names of their packages. */
const BUILT_IN = builtIn.handlers.map((handler) => handler.package.replace('@akrijs/handler-', ''))

/** Packages that a project depends on: npm installs no package into one of the same name. */
export const DEPENDENCIES = ['@akrijs/sdk', '@akrijs/cli', 'zod', 'typescript', '@types/node']

/**
 * @param name of the package: `my-sensor` or `@scope/my-sensor`
 * @returns the names, or what is wrong with the name and what would be right
 */
export function projectNames(name: string): ProjectNames | string {
  const quoted = JSON.stringify(name.slice(0, MAX_PACKAGE))
  const [handler = '', scope, ...rest] = name.split('/').reverse()
  if (rest.length > 0 || (scope !== undefined && !SCOPE.test(scope)))
    return `${quoted} is not the name of a package; use my-sensor or @scope/my-sensor`
  if (!HANDLER.test(handler))
    return (
      `${quoted} cannot be the name of a handler: use small letters, digits and "-", and begin ` +
      'with a letter, such as my-sensor'
    )
  if (handler.length > MAX_HANDLER)
    return `${quoted} is too long: a handler has a name of at most ${MAX_HANDLER} characters`
  if (name.length > MAX_PACKAGE)
    return `${quoted} is too long: a package has a name of at most ${MAX_PACKAGE} characters`
  if (BUILT_IN.includes(handler))
    return `${quoted} is the name of a handler of Akri; use another, such as my-${handler}`
  if (DEPENDENCIES.includes(name))
    return (
      `${quoted} is the name of a package that the handler needs; use another, such as ` +
      `my-${handler}`
    )
  if (YAML_WORDS.test(handler))
    return `${quoted} is not a text in YAML; use another name, such as my-${handler}`
  if (isBuiltin(handler))
    return `${quoted} is the name of a module of Node.js; use another, such as my-${handler}`
  return { package: name, handler, prefix: handler.toUpperCase().replaceAll('-', '_') }
}
