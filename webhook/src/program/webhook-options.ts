import { isIP } from 'node:net'
import {
  handlersOption,
  kubeconfigOption,
  logLevelOption,
  metricsPortOption,
  wholeNumber,
  words,
} from '@akrijs/runtime/program'
import { InvalidArgumentError, Option } from 'commander'
import type { FailurePolicy } from '../review/reviewer.js'

/** What `akri-webhook` can be told. Each flag is also an environment variable; this table is where both come from. */
export interface WebhookProgramOptions {
  readonly port: number
  readonly tlsCrtFile: string | undefined
  readonly tlsKeyFile: string | undefined
  readonly certificateSecret: string
  readonly namespace: string | undefined
  readonly service: string
  readonly serverName: readonly string[]
  readonly webhookConfiguration: string | undefined
  readonly failurePolicy: FailurePolicy
  readonly handler: readonly string[]
  readonly kubeconfig: string | undefined
  readonly metricsPort: number
  readonly drain: number
  readonly logLevel: string
}

export function webhookOptions(): Option[] {
  return [
    new Option('--port <port>', 'serve /validate there')
      .env('AKRI_WEBHOOK_PORT')
      .argParser(wholeNumber(0, 65_535))
      .default(8443),
    new Option(
      '--tls-crt-file <path>',
      'the certificate to serve with, in PEM, read again when it changes; without it one of its own',
    ).env('AKRI_TLS_CRT_FILE'),
    new Option('--tls-key-file <path>', 'the key of that certificate').env('AKRI_TLS_KEY_FILE'),
    new Option(
      '--certificate-secret <name>',
      'the Secret that all replicas keep their own certificate in',
    )
      .env('AKRI_CERTIFICATE_SECRET')
      .default('akri-webhook-configuration'),
    new Option(
      '--namespace <name>',
      'the namespace of that Secret and of the Service; its own certificate needs it',
    ).env('POD_NAMESPACE'),
    new Option('--service <name>', 'the Service that its own certificate is for')
      .env('AKRI_WEBHOOK_SERVICE')
      .default('akri-webhook-configuration'),
    new Option(
      '--server-name <name>',
      'a DNS name or IP address that its own certificate is for as well; may be given several times, or with commas',
    )
      .env('AKRI_SERVER_NAMES')
      .argParser(serverNames)
      .default([], 'none'),
    new Option(
      '--webhook-configuration <name>',
      'the ValidatingWebhookConfiguration that it keeps the authority and the failure policy in; without it none',
    ).env('AKRI_WEBHOOK_CONFIGURATION'),
    new Option(
      '--failure-policy <policy>',
      'what happens to a Configuration that cannot be checked, because no webhook answers or what it needs is not there',
    )
      .env('AKRI_FAILURE_POLICY')
      .choices(['Fail', 'Ignore'])
      .default('Fail'),
    handlersOption('a handler whose discoveryDetails are checked'),
    kubeconfigOption(),
    metricsPortOption(),
    new Option(
      '--drain <seconds>',
      'how long it goes on when it is told to end, until everybody has heard that it is not ready',
    )
      .env('AKRI_DRAIN')
      .argParser(wholeNumber(0, 300))
      .default(5),
    logLevelOption(),
  ]
}

const DNS_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

function serverNames(value: string, all: readonly string[]): string[] {
  for (const name of words(value))
    if (name.includes('%') || name.length > 253 || (isIP(name) === 0 && !DNS_NAME.test(name)))
      throw new InvalidArgumentError(
        `${JSON.stringify(name)} is neither a DNS name in lower case nor an IP address`,
      )
  return [...all, ...words(value)]
}
