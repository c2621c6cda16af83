import { InvalidArgumentError, type Option } from 'commander'
import { LOG_LEVELS, type LogLevel } from './logger.js'
import { choice, integer, type OptionSpec, text } from './option-schema.js'

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
