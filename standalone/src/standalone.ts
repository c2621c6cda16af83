import { lstat, realpath, stat } from 'node:fs/promises'
import path from 'node:path'
import {
  type Agent,
  AllowedAddresses,
  HandlerAccess,
  isolatedNames,
  KubeletSockets,
  runIsolated,
  startAgent,
} from '@akrijs/agent'
import type { Configuration, Instance, ManifestProblem, Place } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { type Clock, Closer, type Logger, messageOf, systemClock } from '@akrijs/runtime'
import {
  type findHandlerPackage,
  findHandlerPackages,
  type HandlerPackage,
} from '@akrijs/sdk/handler'
import { StandaloneCluster } from './cluster/standalone-cluster.js'
import { StateFileError } from './errors.js'
import { handlerProblem, reportHandlerProblems } from './manifests/handler-problems.js'
import type { ConfigurationSource } from './manifests/manifest-files.js'
import { ManifestFollower } from './manifests/manifest-follower.js'
import { makeStateDirectory } from './state/state-directory.js'
import { StateFile } from './state/state-file.js'
import { lockState } from './state/state-lock.js'

export interface StandaloneOptions {
  /** Files, or directories with `*.yaml`, `*.yml` and `*.json`. */
  readonly manifests: readonly string[]
  /** The directory of everything that survives a restart. */
  readonly stateDirectory: string
  /**
   * The directory of sockets; it must belong to this user. Root may use the state directory of
   * another user. @default the state directory, unless its path is too long for sockets
   */
  readonly socketDirectory?: string
  readonly node: string
  /** npm packages, or paths of packages or modules. */
  readonly handlers: readonly string[]
  /** Whether each handler runs in its own process. @default false: all in this process */
  readonly isolated?: boolean
  /** Names of variables that handlers in processes of their own get too. @default none */
  readonly handlerVariables?: readonly string[]
  /** The least important lines that such handlers log. @default info */
  readonly logLevel?: string
  /** The directory from which handler packages are resolved. */
  readonly handlersFrom: string
  /** Finds a handler. @default findHandlerPackage */
  readonly findHandler?: typeof findHandlerPackage
  readonly log: Logger
}

export interface StandaloneAgent {
  readonly agent: Agent
  readonly cluster: StandaloneCluster
  readonly kubelet: SimulatedKubelet
  readonly handlers: readonly HandlerPackage[]
  /** The Instances of an earlier run that the files still have a Configuration for. */
  readonly restored: readonly Instance[]
  /** The present problems of the files and of the handlers. */
  readonly problems: readonly ManifestProblem[]
  onProblems(listener: () => void, signal: AbortSignal): void
  /** Where a Configuration is written. */
  sourceOf(configuration: ObjectKey): ConfigurationSource | undefined
  /** The place of what the handler of a Configuration refuses, or else of a path. */
  problemPlace(
    configuration: Configuration,
    otherwise: string,
  ): { readonly file: string; readonly place: Place | undefined } | undefined
  close(): Promise<void>
}

const LOOPBACK = ['127.0.0.0/8', '::1']

/**
 * Starts an agent with a cluster and a kubelet in this process: the agent of a cluster, with the
 * same sockets.
 * @throws StateLockedError if another agent uses the state directory
 * @throws StateFileError if the state directory cannot be made, written or read
 */
export async function startStandalone(
  options: StandaloneOptions,
  clock: Clock = systemClock,
): Promise<StandaloneAgent> {
  const closer = new Closer()
  try {
    return await start(options, clock, closer)
  } catch (error) {
    await closer.close()
    throw error
  }
}

async function start(
  options: StandaloneOptions,
  clock: Clock,
  closer: Closer,
): Promise<StandaloneAgent> {
  const { stateDirectory, socketDirectory = stateDirectory, log } = options
  const node = options.node as NodeName
  const stop = new AbortController()

  await makeStateDirectory(stateDirectory)
  await makeStateDirectory(socketDirectory)
  await checkOwner(socketDirectory, stateDirectory)
  const lock = await lockState(stateDirectory)
  closer.add(() => lock.release())

  const stateFile = new StateFile(path.join(stateDirectory, 'cluster.json'))
  const cluster = await StandaloneCluster.open({ file: stateFile, clock, log })
  closer.add(() => cluster.close())
  const previousNodes = await cluster.keepOnlyNode(node)
  if (previousNodes.length > 0) log.warn({ node, previousNodes }, 'state of another node discarded')

  const kubelet = await SimulatedKubelet.start({ directory: path.join(socketDirectory, 'kubelet') })
  closer.add(() => kubelet.close())
  const sockets = new KubeletSockets({
    pluginDirectory: kubelet.pluginDirectory,
    podResourcesSocket: kubelet.podResourcesSocket,
    pods: kubelet.nodePods,
    clock,
    log,
  })
  await sockets.open()
  closer.add(() => sockets.close())

  const handlerProblems: ManifestProblem[] = []
  const isolatedDirectory = path.join(socketDirectory, 'isolated')
  const isolation = {
    from: options.handlersFrom,
    directory: isolatedDirectory,
    variables: options.handlerVariables ?? [],
  }
  const handlers = await findHandlerPackages(
    options.handlers,
    options.handlersFrom,
    (error) => {
      handlerProblems.push({ file: '--handler', document: 0, path: '', message: messageOf(error) })
      log.error({ err: error }, 'handler not loaded')
    },
    options.isolated ? isolatedNames(isolation) : undefined,
    options.findHandler,
  )
  const manifests = new ManifestFollower(options.manifests, {
    cluster,
    clock,
    log,
    signal: stop.signal,
  })
  // Also after a failed start: the followers of files hold timers.
  closer.add(() => stop.abort())
  const loaded = handlers.map(({ name }) => name)
  reportHandlerProblems(cluster.configurations, {
    loaded,
    sourceOf: (key) => manifests.sourceOf(key),
    log,
    signal: stop.signal,
  })
  await manifests.applyFirst()
  const restored = cluster.instances.list()

  const handlersDirectory = path.join(socketDirectory, 'handlers')
  const agent = await startAgent({
    cluster,
    kubelet: sockets,
    clock,
    log,
    node,
    handlersDirectory,
    checkpointFile: path.join(stateDirectory, 'checkpoint.json'),
    brokerInfoDirectory: path.resolve(stateDirectory, 'broker-info'),
    // A broker is a process of the user without mounts: the kernel decides about device nodes.
    access: new HandlerAccess({ paths: 'unchecked' }),
    // The sockets are in a directory of the user. A handler on another machine has no Pod.
    handlerAddresses: new AllowedAddresses(LOOPBACK),
    ...(options.isolated
      ? {
          embedded: [],
          isolated: { names: handlers.map(({ name }) => name), directory: isolatedDirectory },
        }
      : { embedded: handlers }),
  })
  // The agent closes before the handlers: a handler that ends while an agent listens has failed.
  let endHandlers: () => unknown = () => {}
  closer.add(() => endHandlers())
  closer.add(() => agent.close())
  if (options.isolated) {
    const { logLevel = 'info' } = options
    endHandlers = runIsolated(handlers, { ...isolation, logLevel, clock, log })
  }

  const following = manifests.follow()
  closer.add(() => {
    stop.abort()
    return following
  })
  return {
    agent,
    cluster,
    kubelet,
    handlers,
    restored,
    get problems() {
      return [...handlerProblems, ...manifests.problems]
    },
    onProblems: (listener, signal) => manifests.onProblems(listener, signal),
    sourceOf: (configuration) => manifests.sourceOf(configuration),
    problemPlace: (configuration, otherwise) => {
      const source = manifests.sourceOf(keyOf(configuration))
      const path = handlerProblem(configuration, loaded)?.path ?? otherwise
      return source && { file: source.file, place: source.placeOf(path) }
    },
    close: () => closer.close(),
  }
}

/** The owner of a directory, or of a link to it, could replace the sockets of the agent. */
async function checkOwner(socketDirectory: string, stateDirectory: string): Promise<void> {
  const user = process.getuid?.()
  // The user chose the state directory; the name of another socket directory can be guessed.
  const isChosen =
    socketDirectory === stateDirectory || socketDirectory === (await realpath(stateDirectory))
  const found = isChosen ? await stat(socketDirectory) : await lstat(socketDirectory)
  if (found.isDirectory() && (found.uid === user || (user === 0 && isChosen))) return
  const problem = found.isDirectory()
    ? `belongs to user ${found.uid}, not to ${user}`
    : 'is not a directory'
  const remedy = isChosen
    ? 'choose another state directory'
    : 'remove it, or choose another socket directory'
  throw new StateFileError(`${socketDirectory} ${problem}; ${remedy}`)
}
