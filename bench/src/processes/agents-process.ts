// Several agents in one process, each as the program runs it, with a simulated kubelet.
import { readdirSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { INSTANCES } from '@akrijs/api'
import { objectKey, Resource } from '@akrijs/kube'
import { DevicePluginClient } from '@akrijs/proto/device-plugin'
import { systemClock } from '@akrijs/runtime'
import {
  commanderOptions,
  createContext,
  createLogger,
  type HealthServerOptions,
  type ProgramContext,
} from '@akrijs/runtime/program'
import type { DiscoveryHandler } from '@akrijs/sdk'
import { credentials } from '@grpc/grpc-js'
import { Command } from 'commander'
import { type AgentProgramOptions, agentOptions } from '../../../agent/src/program/agent-options.js'
import { runAgent } from '../../../agent/src/program/run-agent.js'
import { SimulatedKubelet } from '../../../kube/src/simulated-kubelet/simulated-kubelet.js'
import { clientOfCluster } from '../../../test/cluster/support/client.js'
import { agentPod } from './agent-pod.js'
import { allocatableOf } from './allocatable.js'
import { CommandedDevices } from './commanded-devices.js'
import { LoadMeter } from './load-meter.js'
import { type BenchNode, type SlotOfNode, serveCommands } from './protocol.js'
import { RequestMeter } from './request-meter.js'

interface RunningNode {
  readonly kubelet: SimulatedKubelet | undefined
  readonly devices: CommandedDevices
}

const nodes = new Map<string, RunningNode>()
const log = createLogger('akri-agent', { level: process.env.LOG_LEVEL ?? 'error' })
const stop = new AbortController()
const meter = new RequestMeter()
const loop = new LoadMeter()
let healthPort = 0
const client = await clientOfCluster()
const plugins = new Map<string, DevicePluginClient>()

async function start(node: BenchNode) {
  const { name, directory, kubeletDirectory, devices: first, handlers: further = [] } = node
  const kubelet =
    kubeletDirectory === undefined
      ? await SimulatedKubelet.start({ directory: path.join(directory, 'k') })
      : undefined
  const at = kubeletDirectory ?? path.join(directory, 'k')
  const devices = new CommandedDevices()
  devices.find(first)
  nodes.set(name, { kubelet, devices })
  const handlers = [devices.handler('benchShared'), devices.handler('benchLocal')]
  const packages = await Promise.all(
    handlers.map((handler) => writePackage(directory, name, handler)),
  )
  const flags = {
    node: name,
    pod: agentPod(name),
    'handlers-directory': path.join(directory, 'h'),
    'state-directory': path.join(directory, 's'),
    'plugin-directory': path.join(at, 'device-plugins'),
    'pod-resources-socket': path.join(at, 'pod-resources/kubelet.sock'),
    kubeconfig: process.env.KUBECONFIG ?? '',
    handler: [...packages, ...further].join(','),
    'metrics-port': '0',
    'max-configuration-devices': '100000',
    'max-devices': '100000',
    'max-slots': '1000000',
    'max-resource-names': '10000',
  }
  const options = parseFlags(Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`))
  const context = createContext({ log, signal: stop.signal })
  const isReady = await startAgent(options, context)
  while (isReady() !== undefined) await systemClock.sleep(10)
}

/** @returns why the agent is not ready */
function startAgent(
  options: AgentProgramOptions,
  context: ProgramContext,
): Promise<HealthServerOptions['ready']> {
  return new Promise((resolve, reject) => {
    const serveHealth = async (served: HealthServerOptions) => {
      healthPort = (await context.serveHealth(served)) ?? 0
      resolve(served.ready)
      return healthPort
    }
    runAgent(options, { ...context, serveHealth, packagesFrom: '/' }).catch(reject)
  })
}

function parseFlags(flags: readonly string[]): AgentProgramOptions {
  const command = new Command()
  for (const option of commanderOptions(agentOptions)) command.addOption(option)
  return command.parse(flags, { from: 'user' }).opts<AgentProgramOptions>()
}

/** The agent finds handlers as packages: this package hands over a handler of this process. */
async function writePackage(
  directory: string,
  node: string,
  handler: DiscoveryHandler,
): Promise<string> {
  const key = `akri.bench ${node} ${handler.name}`
  Object.assign(globalThis, { [Symbol.for(key)]: handler })
  const of = path.join(directory, handler.name)
  await mkdir(of, { recursive: true })
  const akri = { contract: handler.contract, handlers: [{ name: handler.name }] }
  const manifest = { name: handler.name, version: '0.0.0', type: 'module', main: 'index.js', akri }
  await writeFile(path.join(of, 'package.json'), JSON.stringify(manifest))
  const module = `export default globalThis[Symbol.for(${JSON.stringify(key)})]\n`
  await writeFile(path.join(of, 'index.js'), module)
  return of
}

async function allocate({ node, instance, slot }: SlotOfNode): Promise<number> {
  const directory = nodes.get(node)?.kubelet?.pluginDirectory ?? ''
  const name = readdirSync(directory).find((file) => file.startsWith(`akri-${instance}`)) ?? ''
  const socket = `unix:${path.join(directory, name)}`
  const plugin = plugins.get(socket) ?? new DevicePluginClient(socket, credentials.createInsecure())
  plugins.set(socket, plugin)
  await new Promise<void>((resolve, reject) =>
    plugin.waitForReady(Date.now() + 10_000, (error) => (error ? reject(error) : resolve())),
  )
  return timed(
    () =>
      new Promise<void>((resolve, reject) => {
        plugin.allocate({ containerRequests: [{ devicesIDs: [slot] }] }, (error) =>
          error ? reject(error) : resolve(),
        )
      }),
  )
}

function patch({ node, namespace, instance, slot }: SlotOfNode): Promise<number> {
  const pointer = `/spec/deviceUsage/${slot}`
  return timed(() =>
    new Resource(client, INSTANCES).patch(objectKey(namespace, instance), 'json', [
      { op: 'test', path: pointer, value: '' },
      { op: 'replace', path: pointer, value: `somebody on ${node}` },
    ]),
  )
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

serveCommands({
  start: async (all) => void (await Promise.all(all.map(start))),
  find: async ({ nodes: at, devices }) => {
    for (const node of at) nodes.get(node)?.devices.find(devices)
  },
  findMore: async ({ nodes: at, devices }) => {
    for (const node of at) nodes.get(node)?.devices.findMore(devices)
  },
  counts: async () => meter.counts(),
  allocatable: async () =>
    Object.fromEntries(
      [...nodes].map(([name, { kubelet }]) => [
        name,
        kubelet === undefined ? {} : allocatableOf(kubelet),
      ]),
    ),
  load: async () => loop.load(),
  healthPort: async () => healthPort,
  allocate: (slots) => Promise.all(slots.map(allocate)),
  patch: (slots) => Promise.all(slots.map(patch)),
})
