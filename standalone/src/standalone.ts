import { lstat, realpath, stat } from 'node:fs/promises'
import path from 'node:path'
import {
  type AgeingOptions,
  type Agent,
  KubeletSockets,
  runIsolated,
  startAgent,
} from '@akrijs/agent'
import type { ManifestProblem } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube'
import {
  backoff,
  type Clock,
  Listeners,
  type Logger,
  messageOf,
  systemClock,
} from '@akrijs/runtime'
import { findHandlerPackages, type HandlerPackage } from '@akrijs/runtime/handler'
import { StandaloneCluster } from './cluster/standalone-cluster.js'
import { StateFileError } from './errors.js'
import { tellHandlerProblems } from './manifests/handler-problem.js'
import { watchManifests } from './manifests/manifest-files.js'
import { SimulatedKubelet } from './simulated-kubelet/simulated-kubelet.js'
import { makeStateDirectory } from './state/state-directory.js'
import { StateFile } from './state/state-file.js'
import { lockState } from './state/state-lock.js'

export interface StandaloneOptions extends Partial<AgeingOptions> {
  /** Files, or directories with `*.yaml`, `*.yml` and `*.json`. */
  readonly manifests: readonly string[]
  /** Where everything that is to survive a restart is kept. */
  readonly stateDirectory: string
  /**
   * Where sockets go; a directory of this user. @default the state directory, also one of somebody else for root; give a shorter
   * one where its path is too long for sockets
   */
  readonly socketDirectory?: string
  readonly node: string
  /** npm packages or paths of handlers to run in this process. */
  readonly handlers: readonly string[]
  /** Whether each handler runs in a process of its own. @default false */
  readonly isolated?: boolean
  /** The directory from which they are looked for. */
  readonly handlersFrom: string
  readonly log: Logger
  readonly clock?: Clock
}

export interface StandaloneAgent {
  readonly agent: Agent
  readonly cluster: StandaloneCluster
  readonly kubelet: SimulatedKubelet
  readonly node: NodeName
  readonly handlers: readonly HandlerPackage[]
  /** What is wrong in the files, and with the handlers, at present. */
  readonly problems: readonly ManifestProblem[]
  onProblems(listener: () => void, signal: AbortSignal): void
  /** The file that a Configuration stands in. */
  fileOf(configuration: ObjectKey): string | undefined
  close(): Promise<void>
}

/**
 * Starts an agent with a cluster and a kubelet in this process: the same core over the same sockets.
 * @throws StateLockedError where another agent works on the state directory
 * @throws StateFileError where that cannot be made, written or read
 */
export async function startStandalone(options: StandaloneOptions): Promise<StandaloneAgent> {
  const { stateDirectory, socketDirectory = stateDirectory, log, clock = systemClock } = options
  const node = options.node as NodeName
  await makeStateDirectory(stateDirectory)
  await makeStateDirectory(socketDirectory)
  await checkOwner(socketDirectory, stateDirectory)
  const lock = await lockState(stateDirectory)
  const stop = new AbortController()
  // In the order in which they are to be closed.
  const open: (() => Promise<unknown>)[] = []
  const close = async () => {
    stop.abort()
    for (const one of open.splice(0)) await one()
    await lock.release()
  }
  try {
    const cluster = await StandaloneCluster.open({
      file: new StateFile(path.join(stateDirectory, 'cluster.json')),
      clock,
      log,
    })
    const others = await cluster.keepOnlyNode(node)
    if (others.length > 0)
      log.warn({ node, others }, 'state is of another node: its Instances and slots are given up')
    const kubelet = await SimulatedKubelet.start({
      directory: path.join(socketDirectory, 'kubelet'),
    })
    open.unshift(() => kubelet.close())
    const sockets = new KubeletSockets({
      pluginDirectory: kubelet.pluginDirectory,
      podResourcesSocket: kubelet.podResourcesSocket,
      pods: kubelet.nodePods,
      clock,
      log,
    })
    await sockets.open()
    open.unshift(() => sockets.close())

    const handlerProblems: ManifestProblem[] = []
    const handlers = await findHandlerPackages(options.handlers, options.handlersFrom, (error) => {
      handlerProblems.push({ file: '--handler', document: 0, path: '', message: messageOf(error) })
      log.error({ err: error }, 'handler cannot be used')
    })

    let problems: readonly ManifestProblem[] = handlerProblems
    let files: ReadonlyMap<ObjectKey, string> = new Map()
    const listeners = new Listeners()
    const sets = watchManifests(options.manifests, { clock, log, signal: stop.signal })
    const first = await sets.next()
    const apply = async (set: typeof first.value) => {
      if (!set) return
      files = set.files
      await cluster.apply(set.desired)
      problems = [...handlerProblems, ...set.problems]
      for (const { file, document, path: at, message } of set.problems)
        log.error(
          { file, ...(document > 0 ? { document } : {}), path: at, error: message },
          'manifest refused',
        )
      listeners.tell()
    }
    const loaded = handlers.map(({ name }) => name)
    tellHandlerProblems(cluster.configurations, {
      loaded,
      fileOf: (key) => files.get(key),
      log,
      signal: stop.signal,
    })
    await apply(first.value)

    const handlersDirectory = path.join(socketDirectory, 'handlers')
    const agent = await startAgent({
      ...options,
      cluster,
      kubelet: sockets,
      clock,
      log,
      node,
      handlersDirectory,
      checkpointFile: path.join(stateDirectory, 'checkpoint.json'),
      brokerInfoDirectory: path.resolve(stateDirectory, 'broker-info'),
      embedded: options.isolated ? [] : handlers,
    })
    open.unshift(
      () => agent.close(),
      () => cluster.close(),
    )
    if (options.isolated) {
      const end = runIsolated(handlers, {
        from: options.handlersFrom,
        directory: handlersDirectory,
        clock,
        log,
      })
      // After the agent: a handler that ends while it is listened to is one that failed.
      open.splice(1, 0, end)
    }

    const following = (async () => {
      for await (const set of sets) {
        // Where there is no room for the state: what was edited is not to be forgotten for that.
        for (const retryInMs of backoff()) {
          const applied = await apply(set).then(
            () => true,
            (error: unknown) => log.error({ err: error, retryInMs }, 'manifests cannot be applied'),
          )
          if (applied === true || stop.signal.aborted) break
          await clock.sleep(retryInMs, stop.signal).catch(() => undefined)
        }
      }
    })()
    open.unshift(() => following)

    return {
      agent,
      cluster,
      kubelet,
      node,
      handlers,
      get problems() {
        return problems
      },
      onProblems: (listener, signal) => listeners.add(listener, signal),
      fileOf: (configuration) => files.get(configuration),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** In a directory of somebody else, or where his link leads, he could put his own sockets in the place of ours. */
async function checkOwner(sockets: string, state: string): Promise<void> {
  const own = process.getuid?.()
  // The state directory was named to us; the name of another one may be one that anybody can guess.
  const isNamed = sockets === state || sockets === (await realpath(state))
  const found = isNamed ? await stat(sockets) : await lstat(sockets)
  if (found.isDirectory() && (found.uid === own || (own === 0 && isNamed))) return
  const what = found.isDirectory() ? `belongs to user ${found.uid}, not to ${own}` : 'is a link'
  throw new StateFileError(
    `${sockets} ${what}; ${isNamed ? 'give another state directory' : 'remove it, or have sockets elsewhere'}`,
  )
}
