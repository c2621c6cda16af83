import os from 'node:os'
import {
  kubeconfigOption,
  logLevelOption,
  metricsPortOption,
  wholeNumber,
} from '@akrijs/runtime/program'
import { Option } from 'commander'

/** What `akri-controller` can be told. Each flag is also an environment variable; this table is where both come from. */
export interface ControllerProgramOptions {
  readonly kubeconfig: string | undefined
  readonly leaseNamespace: string
  readonly identity: string
  readonly nodeGrace: number
  readonly metricsPort: number
  readonly logLevel: string
}

export function controllerOptions(): Option[] {
  return [
    kubeconfigOption(),
    new Option(
      '--lease-namespace <name>',
      'the namespace of the Lease by which one of several replicas leads',
    )
      .env('POD_NAMESPACE')
      .default('akri'),
    new Option(
      '--identity <name>',
      'what this replica is called in the Lease; no other one may be called so',
    )
      .env('POD_NAME')
      .default(`${os.hostname()}-${process.pid}`, "the host's name and the process id"),
    new Option(
      '--node-grace <seconds>',
      'how long a node may be silent before it is taken out of Instances',
    )
      .env('AKRI_NODE_GRACE')
      .argParser(wholeNumber(0, 86_400))
      .default(300),
    metricsPortOption(),
    logLevelOption(),
  ]
}
