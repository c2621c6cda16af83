import path from 'node:path'
import { InvalidArgumentError, Option } from 'commander'
import { LOG_LEVELS } from '../logger.js'

// Options that programs have in common.

/** Reads the value of an option. @returns a parser that throws InvalidArgumentError for anything but a whole number in this range */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`write a whole number from ${least} to ${most}`)
  }
}

/** RFC 1123's subdomain, as Kubernetes names nodes. */
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const MOST_OF_A_NAME = 253

/** Whether Kubernetes would have a node of this name. */
export function isNodeName(text: string): boolean {
  return text.length <= MOST_OF_A_NAME && DNS_SUBDOMAIN.test(text)
}

/** Reads the name of a node. @throws InvalidArgumentError for anything that is no DNS subdomain name */
export function nodeName(text: string): string {
  if (isNodeName(text)) return text
  throw new InvalidArgumentError(
    `write a DNS name: at most ${MOST_OF_A_NAME} of a-z, 0-9, - and ., beginning and ending with a letter or digit, also beside each .`,
  )
}

/** Reads the path of a directory, which is taken from the working directory. */
export function directoryPath(text: string): string {
  if (text !== '') return path.resolve(text)
  throw new InvalidArgumentError('write the path of a directory')
}

/** Takes variables of these options that are empty out of the environment: they count as if they were not there. */
export function unsetEmpty(
  options: readonly Option[],
  environment: NodeJS.ProcessEnv = process.env,
): void {
  for (const { envVar } of options)
    if (envVar !== undefined && environment[envVar] === '') delete environment[envVar]
}

/** Reads a text with commas. */
export function words(text: string): string[] {
  return text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean)
}

export function kubeconfigOption(): Option {
  return new Option(
    '--kubeconfig <file>',
    "the cluster to use; without it the Pod's own, else that of ~/.kube/config",
  ).env('KUBECONFIG')
}

export function metricsPortOption(): Option {
  return new Option('--metrics-port <port>', 'serve /metrics, /healthz and /readyz there')
    .env('METRICS_PORT')
    .argParser(wholeNumber(0, 65_535))
    .default(8080)
}

/** @param standard the level where none is given */
export function logLevelOption(standard: (typeof LOG_LEVELS)[number] = 'info'): Option {
  return new Option('--log-level <level>', 'least important lines to log')
    .env('LOG_LEVEL')
    .choices(LOG_LEVELS)
    .default(standard)
}
