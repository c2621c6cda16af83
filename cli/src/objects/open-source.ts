import path from 'node:path'
import { ApiClient, warningLogger } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { InvalidOptionError, systemClock } from '@akrijs/runtime'
import type { ProgramContext } from '@akrijs/runtime/program'
import type { SourceOptions } from '../command-options.js'
import { controlSocket } from '../places.js'
import { AgentObjects } from './agent-objects.js'
import { ClusterObjects } from './cluster-objects.js'
import type { ObjectSource } from './object-source.js'

/** The name of the program as a plugin: `kubectl akri get instances`. */
const PLUGIN = /^kubectl[-_]akri\b/

/**
 * The objects that a command shows: of a cluster if an option names one, or kubectl has started the
 * program, else of the agent of this machine.
 * @throws InvalidOptionError, ClusterAccessError
 */
export async function openSource(
  options: SourceOptions,
  { signal, closer, log }: Pick<ProgramContext, 'signal' | 'closer' | 'log'>,
  program = path.basename(process.argv[1] ?? ''),
): Promise<ObjectSource> {
  const { kubeconfig, context, namespace, allNamespaces, stateDir } = options
  if (namespace !== undefined && allNamespaces)
    throw new InvalidOptionError('give either --namespace or --all-namespaces')
  const isOfCluster =
    (kubeconfig ?? context ?? namespace) !== undefined || allNamespaces || PLUGIN.test(program)
  if (!isOfCluster) return new AgentObjects(await controlSocket(stateDir))
  const access = await clusterAccess({ kubeconfig, context })
  const client = new ApiClient({
    access,
    clock: systemClock,
    userAgent: 'akri-cli',
    onWarning: warningLogger(log),
  })
  closer.add(() => client.close())
  const chosen = allNamespaces ? '' : (namespace ?? access.namespace ?? 'default')
  return new ClusterObjects({ client, namespace: chosen, signal })
}
