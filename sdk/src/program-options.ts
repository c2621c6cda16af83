import path from 'node:path'
import { InvalidArgumentError, Option } from 'commander'
import { isPath } from './handler-package.js'
import { LOG_LEVELS } from './logger.js'

// Options that programs have in common.

/** Reads the value of an option. @returns a parser that throws InvalidArgumentError for anything but a whole number in this range */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`write a whole number from ${least} to ${most}`)
  }
}

/** Reads a text with commas. */
export function words(text: string): string[] {
  return text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean)
}

/** Reads the name of a handler's package, or its path, which is taken from the working directory. */
export function handlerSpecifier(text: string): string {
  return isPath(text) ? path.resolve(text) : text
}

/** @param what the program does with a handler's package */
export function handlersOption(what: string): Option {
  return new Option('--handler <package>', `${what}: npm package or path; may be given several times, or with commas`)
    .env('AKRI_HANDLERS')
    .argParser((text: string, all: readonly string[]) => [...all, ...words(text).map(handlerSpecifier)])
    .default([], 'none')
}

export function kubeconfigOption(): Option {
  return new Option('--kubeconfig <file>', "the cluster to use; without it the Pod's own, else that of ~/.kube/config").env(
    'KUBECONFIG',
  )
}

export function metricsPortOption(): Option {
  return new Option('--metrics-port <port>', 'serve /metrics, /healthz and /readyz there')
    .env('METRICS_PORT')
    .argParser(wholeNumber(0, 65_535))
    .default(8080)
}

/** @param standard the level where none is given */
export function logLevelOption(standard: (typeof LOG_LEVELS)[number] = 'info'): Option {
  return new Option('--log-level <level>', 'least important lines to log').env('LOG_LEVEL').choices(LOG_LEVELS).default(standard)
}
