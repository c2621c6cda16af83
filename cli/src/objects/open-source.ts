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

type OpenContext = Pick<ProgramContext, 'signal' | 'closer' | 'log'>
type ClusterOptions = Pick<SourceOptions, 'kubeconfig' | 'context' | 'namespace'> &
  Partial<Pick<SourceOptions, 'allNamespaces'>>

/** The name of the program as a plugin: `kubectl akri get instances`. */
const PLUGIN = /^kubectl[-_]akri\b/

/**
 * The objects that a command shows: of a cluster if an option names one, or kubectl has started the
 * program, else of the agent of this machine.
 * @throws InvalidOptionError, ClusterAccessError
 */
export async function openSource(
  options: SourceOptions,
  context: OpenContext,
  program = path.basename(process.argv[1] ?? ''),
): Promise<ObjectSource> {
  const { kubeconfig, context: named, namespace, allNamespaces, stateDir } = options
  const isOfCluster =
    (kubeconfig ?? named ?? namespace) !== undefined || allNamespaces || PLUGIN.test(program)
  return isOfCluster
    ? openCluster(options, context)
    : new AgentObjects(await controlSocket(stateDir))
}

/** @throws InvalidOptionError, ClusterAccessError */
export async function openCluster(
  { kubeconfig, context, namespace, allNamespaces = false }: ClusterOptions,
  { signal, closer, log }: OpenContext,
): Promise<ClusterObjects> {
  if (namespace !== undefined && allNamespaces)
    throw new InvalidOptionError('give either --namespace or --all-namespaces')
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
