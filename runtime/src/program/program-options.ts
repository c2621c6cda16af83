import { existsSync } from 'node:fs'
import path from 'node:path'
import { InvalidArgumentError, type Option } from 'commander'
import { isModuleName } from '../handler/handler-module.js'
import { isPath } from '../handler/handler-package.js'
import { LOG_LEVELS, type LogLevel } from '../logger.js'
import { choice, integer, list, type OptionSpec, text } from './option-schema.js'

// Options that programs have in common.

/** A DNS subdomain (RFC 1123), as Kubernetes names nodes. */
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
/** The longest DNS name, in characters. */
const MAX_DNS_NAME = 253

export function isDnsName(name: string): boolean {
  return name.length <= MAX_DNS_NAME && DNS_SUBDOMAIN.test(name)
}

/** Reads the name of a node. @throws InvalidArgumentError if the text is no DNS subdomain */
export function nodeName(name: string): string {
  if (isDnsName(name)) return name
  throw new InvalidArgumentError(
    `write a DNS name: at most ${MAX_DNS_NAME} of a-z, 0-9, - and .; it begins and ends ` +
      'with a letter or digit, also beside each .',
  )
}

/**
 * Removes empty variables of these options from the environment: an empty variable counts as unset.
 */
export function unsetEmpty(
  options: readonly Option[],
  environment: NodeJS.ProcessEnv = process.env,
): void {
  for (const { envVar } of options)
    if (envVar !== undefined && environment[envVar] === '') delete environment[envVar]
}

/**
 * Reads the name of a handler's package, or the path of a package or module relative to the working
 * directory.
 */
export function handlerSpecifier(specifier: string): string {
  const isFile = isPath(specifier) || (isModuleName(specifier) && existsSync(specifier))
  return isFile ? path.resolve(specifier) : specifier
}

/** @param purpose what the program does with the package of a handler */
export function handlerOption(
  purpose: string,
  more: Pick<OptionSpec<readonly string[]>, 'variable' | 'chart' | 'default' | 'defaultText'> = {},
): OptionSpec<readonly string[]> {
  return list({
    argument: '<package>',
    meaning:
      `${purpose}: npm package, or the path of a package or module; can be repeated, or a list ` +
      'with commas',
    item: handlerSpecifier,
    ...more,
  })
}

/** A name that the environment of a process can have (POSIX). */
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/

/** A handler in a process of its own gets few variables: the environment can hold credentials. */
export function handlerVariablesOption(
  more: Pick<OptionSpec<unknown>, 'chart'> = {},
): OptionSpec<readonly string[]> {
  return list({
    argument: '<name>',
    meaning:
      'an environment variable that handlers in processes of their own get too; can be ' +
      'repeated, or a list with commas',
    variable: 'AKRI_HANDLER_VARIABLES',
    item: (name) => {
      if (VARIABLE.test(name)) return name
      throw new InvalidArgumentError(
        'write names of variables: letters, digits and _, beginning with no digit',
      )
    },
    ...more,
  })
}

export const kubeconfigOption = text({
  argument: '<file>',
  meaning: "the cluster to use; without it the Pod's own cluster, else that of ~/.kube/config",
  variable: 'KUBECONFIG',
})

export function metricsPortOption(chart?: string): OptionSpec<number> {
  return integer([0, 65_535], {
    argument: '<port>',
    meaning: 'serve /metrics, /healthz and /readyz there',
    variable: 'METRICS_PORT',
    default: 8080,
    chart,
  })
}

export function logLevelOption(chart?: string, standard: LogLevel = 'info'): OptionSpec<LogLevel> {
  return choice(LOG_LEVELS, {
    argument: '<level>',
    meaning: 'least important lines to log',
    variable: 'LOG_LEVEL',
    default: standard,
    chart,
  })
}
