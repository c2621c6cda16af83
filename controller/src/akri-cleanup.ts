#!/usr/bin/env node
import { ApiClient, warningLogger } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { systemClock } from '@akrijs/runtime'
import { integer, kubeconfigOption, logLevelOption, startProgram } from '@akrijs/runtime/program'
import { deleteConfigurations } from './delete-configurations.js'

await startProgram({
  name: 'akri-cleanup',
  description:
    'Deletes the Configurations of all namespaces, and waits until they are gone. The Helm chart ' +
    'runs this program before it uninstalls.',
  version: '0.1.0',
  options: {
    kubeconfig: kubeconfigOption,
    timeout: integer([1, 3600], {
      argument: '<seconds>',
      meaning: 'how long to wait until the Configurations are gone',
      default: 100,
    }),
    logLevel: logLevelOption(),
  },
  run: async ({ kubeconfig, timeout }, { log, signal, closer }) => {
    const clock = systemClock
    const access = await clusterAccess({ kubeconfig })
    const onWarning = warningLogger(log)
    const client = new ApiClient({ access, clock, userAgent: 'akri-cleanup', onWarning })
    closer.add(() => client.close())
    await deleteConfigurations({ client, clock, log, limitMs: timeout * 1000 }, signal)
  },
})
