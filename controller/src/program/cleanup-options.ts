import { integer, kubeconfigOption, logLevelOption } from '@akrijs/runtime/program'

/** The options of `akri-cleanup`. */
export const cleanupOptions = {
  kubeconfig: kubeconfigOption,
  timeout: integer([1, 3600], {
    argument: '<seconds>',
    meaning: 'how long to wait until the Configurations are gone',
    default: 100,
  }),
  logLevel: logLevelOption(),
}
