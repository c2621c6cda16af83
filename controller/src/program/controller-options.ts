import os from 'node:os'
import { COMPATIBILITIES } from '@akrijs/api'
import {
  choice,
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
    meaning:
      'the namespace of the Lease that elects the leading replica, and of the Pods of agents',
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
    meaning:
      'how long a node can be silent, or without its agent, before the controller removes it ' +
      'from Instances',
    variable: 'AKRI_NODE_GRACE',
    default: 300,
    chart: 'env',
  }),
  compatibility: choice(COMPATIBILITIES, {
    argument: '<system>',
    meaning:
      'the other system whose agents run on other nodes: leave free slots out as they do, and ' +
      'count them as agents',
    variable: 'AKRI_COMPATIBILITY',
    default: 'off',
    chart: 'compatibility',
  }),
  metricsPort: metricsPortOption(),
  logLevel: logLevelOption('controller.logLevel'),
}

export type ControllerProgramOptions = OptionsOf<typeof controllerOptions>
