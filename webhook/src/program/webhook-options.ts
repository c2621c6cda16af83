import { isIP } from 'node:net'
import { COMPATIBILITIES } from '@akrijs/api'
import {
  choice,
  integer,
  isDnsName,
  kubeconfigOption,
  list,
  logLevelOption,
  metricsPortOption,
  type OptionsOf,
  text,
} from '@akrijs/runtime/program'
import { handlerOption } from '@akrijs/sdk/handler-options'
import { InvalidArgumentError } from 'commander'

/** The options of `akri-webhook`. The flags, the docs and the chart's values come from here. */
export const webhookOptions = {
  port: integer([0, 65_535], {
    argument: '<port>',
    meaning: 'serve /validate there',
    variable: 'AKRI_WEBHOOK_PORT',
    default: 8443,
  }),
  tlsCrtFile: text({
    argument: '<path>',
    meaning:
      'a file with the certificate, in PEM; the webhook reads it again after a change. ' +
      'Without it the webhook issues its own certificate',
    variable: 'AKRI_TLS_CRT_FILE',
  }),
  tlsKeyFile: text({
    argument: '<path>',
    meaning: 'the file with the key of that certificate',
    variable: 'AKRI_TLS_KEY_FILE',
  }),
  certificateSecret: text({
    argument: '<name>',
    meaning: 'the Secret in which all replicas keep their own certificate',
    variable: 'AKRI_CERTIFICATE_SECRET',
    default: 'akri-webhook-configuration',
  }),
  namespace: text({
    argument: '<name>',
    meaning: 'the namespace of that Secret and of the Service; an own certificate needs it',
    variable: 'POD_NAMESPACE',
  }),
  service: text({
    argument: '<name>',
    meaning: 'the Service that the own certificate names',
    variable: 'AKRI_WEBHOOK_SERVICE',
    default: 'akri-webhook-configuration',
  }),
  serverName: list({
    argument: '<name>',
    meaning:
      'another DNS name or IP address in the own certificate; can be repeated, or a list ' +
      'with commas',
    variable: 'AKRI_SERVER_NAMES',
    item: serverName,
    chart: 'env',
  }),
  webhookConfiguration: text({
    argument: '<name>',
    meaning:
      'the ValidatingWebhookConfiguration into which the webhook writes its authority, ' +
      'the failure policy and missing rules; without it none',
    variable: 'AKRI_WEBHOOK_CONFIGURATION',
  }),
  failurePolicy: choice(['Fail', 'Ignore'], {
    argument: '<policy>',
    meaning:
      'what happens to a Configuration that cannot be checked, because no webhook answers ' +
      'or something that the check needs is missing',
    variable: 'AKRI_FAILURE_POLICY',
    default: 'Fail',
    chart: 'webhookConfiguration.failurePolicy',
  }),
  compatibility: choice(COMPATIBILITIES, {
    argument: '<system>',
    meaning: 'the other system whose agents run in the cluster: refuse fields that stop them',
    variable: 'AKRI_COMPATIBILITY',
    default: 'off',
    chart: 'compatibility',
  }),
  handler: handlerOption('a handler whose discoveryDetails the webhook checks', {
    variable: 'AKRI_HANDLERS',
  }),
  kubeconfig: kubeconfigOption,
  metricsPort: metricsPortOption(),
  drain: integer([0, 300], {
    argument: '<seconds>',
    meaning:
      'how long the webhook still serves after it was asked to end, until clients know that ' +
      'it is not ready',
    variable: 'AKRI_DRAIN',
    default: 5,
    chart: 'env',
  }),
  logLevel: logLevelOption('webhookConfiguration.logLevel'),
}

export type WebhookProgramOptions = OptionsOf<typeof webhookOptions>

function serverName(name: string): string {
  if (!name.includes('%') && (isIP(name) !== 0 || isDnsName(name))) return name
  throw new InvalidArgumentError(
    `${JSON.stringify(name)} is neither a DNS name in lower case nor an IP address`,
  )
}
