import os from 'node:os'
import {
  integer,
  kubeconfigOption,
  logLevelOption,
  metricsPortOption,
  type OptionsOf,
  text,
} from '@akrijs/runtime/program'

/** The options of `akri-controller`. The flags, the docs and the chart's values come from here. */
export const controllerOptions = {
  kubeconfig: kubeconfigOption,
  leaseNamespace: text({
    argument: '<name>',
    meaning: 'the namespace of the Lease that elects the leading replica',
    variable: 'POD_NAMESPACE',
    default: 'akri',
  }),
  identity: text({
    argument: '<name>',
    meaning: 'the name of this replica in the Lease; each replica has another name',
    variable: 'POD_NAME',
    default: `${os.hostname()}-${process.pid}`,
    defaultText: "the host's name and the process id",
  }),
  nodeGrace: integer([0, 86_400], {
    argument: '<seconds>',
    meaning: 'how long a node can be silent before the controller removes it from Instances',
    variable: 'AKRI_NODE_GRACE',
    default: 300,
    chart: 'env',
  }),
  metricsPort: metricsPortOption(),
  logLevel: logLevelOption('controller.logLevel'),
}

export type ControllerProgramOptions = OptionsOf<typeof controllerOptions>
