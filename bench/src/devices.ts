// One agent with many devices: memory, work, and whether it answers meanwhile.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { systemClock } from '@akrijs/runtime'
import { bundleTypeScript } from './load-typescript.mjs'
import { BenchProcess } from './processes/bench-process.js'
import type { ProcessLoad } from './processes/protocol.js'
import { type Figure, printRows } from './table.mjs'

/** `both`: a device plugin for each device. `configuration`: one for all. */
const SIZES = { both: [100, 1000, 3000], configuration: [100, 1000, 3000, 10_000] } as const
type Offer = keyof typeof SIZES

const NODE = 'bench-node'
const CONFIGURATION = 'bench'
const RESOURCE = `akri.sh/${CONFIGURATION}`
const CHANGES = 20
/** Without a request for so long, the agent has done what there was to do. */
const QUIET_MS = 2000
/** Memory that only the start needed is free by then. */
const SETTLE_MS = 10_000
const POLL_MS = 50
const LIMIT_MS = 600_000

interface Measurement {
  readonly offer: Offer
  readonly devices: number
  readonly offeredSeconds: number
  readonly residentMegabytes: number
  readonly dirtyMegabytes: number
  /** Of each device, above an agent without devices, in kB. */
  readonly residentPerDevice: number
  /** While all devices appear at once, in milliseconds. */
  readonly blockedMs: number
  readonly busyMs: number
  readonly healthMs: number
  /** The same of a program without work, beside the agent. */
  readonly peerHealthMs: number
  /** Of one device that appears besides, in milliseconds. */
  readonly changeCpuMs: number
  readonly changeMs: number
  /** Of an agent that starts again with all these devices. */
  readonly restartSeconds: number
  readonly restartBusyMs: number
}

export async function measure(): Promise<Figure[]> {
  const bundles = await Promise.all([
    bundleTypeScript('bench/src/processes/agents-process.ts'),
    bundleTypeScript('bench/src/processes/node-process.ts'),
    bundleTypeScript('bench/src/processes/probe-process.ts'),
  ])
  const measurements: Measurement[] = []
  for (const offer of ['both', 'configuration'] as const)
    for (const size of SIZES[offer]) measurements.push(await measureAgent(offer, size, bundles))
  printMeasurements(measurements)
  const [few, many] = [1000, 10_000].map((size) =>
    measurements.find(({ offer, devices }) => offer === 'configuration' && devices === size),
  )
  if (few === undefined || many === undefined) return []
  const figure = (what: string, value: number, unit: string, budget: number) => ({
    what: `${many.devices} devices, ${what}`,
    value,
    unit,
    budget,
  })
  return [
    figure('memory (RSS) of each', many.residentPerDevice, 'kB', 30),
    figure('event loop blocked at most', many.blockedMs, 'ms', 100),
    figure('event loop busy without a pause at most', many.busyMs, 'ms', 100),
    {
      ...figure('/healthz at most', many.healthMs, 'ms', 50),
      peer: { name: 'a program without work', value: many.peerHealthMs },
    },
    {
      ...figure('CPU of one more', many.changeCpuMs, 'ms', 20),
      peer: { name: `with ${few.devices}`, value: few.changeCpuMs },
    },
    figure('one more offered after', many.changeMs, 'ms', 1000),
    figure('event loop busy at a restart at most', many.restartBusyMs, 'ms', 100),
  ]
}

async function measureAgent(
  offer: Offer,
  devices: number,
  [agentBundle, nodeBundle, probeBundle = '']: readonly string[],
): Promise<Measurement> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-d'))
  const node = new BenchProcess(nodeBundle ?? '')
  let agent: BenchProcess | undefined
  try {
    mkdirSync(path.join(directory, 'a'))
    const configuration = {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: CONFIGURATION },
      spec: {
        discoveryHandler: { name: 'benchLocal', discoveryDetails: CONFIGURATION },
        capacity: 1,
        ...(offer === 'both' ? {} : { offer }),
      },
    }
    const { kubeconfig, kubeletDirectory } = await node.ask('host', {
      name: NODE,
      directory,
      configurations: [configuration],
    })
    const start = async (ids: readonly string[]) => {
      agent = new BenchProcess(agentBundle ?? '', [], { KUBECONFIG: kubeconfig })
      // The modules of a process are loaded in one piece.
      await agent.ask('load')
      const devices = { [CONFIGURATION]: ids }
      await agent.ask('start', [
        { name: NODE, directory: path.join(directory, 'a'), kubeletDirectory, devices },
      ])
      return agent
    }
    return await new AgentWithDevices(await start([]), node, offer, start, probeBundle).measure(
      devices,
    )
  } finally {
    await agent?.stop()
    await node.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

type StartAgent = (ids: readonly string[]) => Promise<BenchProcess>

class AgentWithDevices {
  #agent: BenchProcess
  readonly #node: BenchProcess
  readonly #offer: Offer
  readonly #start: StartAgent
  readonly #probeBundle: string

  constructor(
    agent: BenchProcess,
    node: BenchProcess,
    offer: Offer,
    start: StartAgent,
    probeBundle: string,
  ) {
    this.#agent = agent
    this.#node = node
    this.#offer = offer
    this.#start = start
    this.#probeBundle = probeBundle
  }

  async measure(devices: number): Promise<Measurement> {
    const base = await this.#settled()
    const health = await HealthProbe.start(this.#probeBundle, await this.#agent.ask('healthPort'))
    const begun = performance.now()
    await this.#find(idsBetween(0, devices))
    await this.#untilOffered(devices)
    const offeredSeconds = (performance.now() - begun) / 1000
    await this.#untilQuiet()
    const answers = await health.end()
    const { blockedMs, busyMs } = await this.#agent.ask('load')
    const before = await this.#settled()
    let changeMs = 0
    for (let change = 1; change <= CHANGES; change++) {
      const changed = performance.now()
      await this.#find(idsBetween(devices + change - 1, devices + change))
      await this.#untilOffered(devices + change)
      changeMs += (performance.now() - changed) / CHANGES
    }
    await this.#untilQuiet()
    const after = await this.#agent.ask('load')
    const restart = await this.#restart(devices + CHANGES)
    const resident = before.residentBytes - base.residentBytes
    return {
      offer: this.#offer,
      devices,
      offeredSeconds,
      residentMegabytes: before.residentBytes / 1e6,
      dirtyMegabytes: before.dirtyMegabytes,
      residentPerDevice: resident / 1000 / devices,
      blockedMs,
      busyMs,
      ...answers,
      changeCpuMs: ((after.cpuSeconds - before.cpuSeconds) * 1000) / CHANGES,
      changeMs,
      ...restart,
    }
  }

  /** The agent is killed, and starts again. */
  async #restart(devices: number): Promise<Pick<Measurement, 'restartSeconds' | 'restartBusyMs'>> {
    await this.#agent.stop()
    while ((await this.#problem(devices)) === undefined) await systemClock.sleep(POLL_MS)
    const begun = performance.now()
    this.#agent = await this.#start(idsBetween(0, devices))
    await this.#untilOffered(devices)
    const restartSeconds = (performance.now() - begun) / 1000
    await this.#untilQuiet()
    const { busyMs: restartBusyMs } = await this.#agent.ask('load')
    return { restartSeconds, restartBusyMs }
  }

  async #find(ids: readonly string[]): Promise<void> {
    await this.#agent.ask('findMore', { nodes: [NODE], devices: { [CONFIGURATION]: ids } })
  }

  /** Resolves when the kubelet offers so many devices, and each has an Instance. */
  async #untilOffered(count: number): Promise<void> {
    const end = performance.now() + LIMIT_MS
    for (;;) {
      const problem = await this.#problem(count)
      if (problem === undefined) return
      if (performance.now() > end) throw new Error(`${problem}\n${this.#agent.log}`)
      await systemClock.sleep(POLL_MS)
    }
  }

  async #problem(count: number): Promise<string | undefined> {
    const { instances = 0 } = await this.#node.ask('objects')
    if (instances !== count) return `${instances} Instances of ${count}`
    const { '': offered = {} } = await this.#node.ask('allocatable')
    if (offered[RESOURCE] !== count) return `${offered[RESOURCE]} devices of ${count} are offered`
    const plugins = Object.values(offered).filter((ids) => ids > 0).length
    const expected = this.#offer === 'both' ? count + 1 : 1
    return plugins === expected ? undefined : `${plugins} resources of ${expected}`
  }

  async #settled(): Promise<ProcessLoad> {
    await this.#untilQuiet()
    await systemClock.sleep(SETTLE_MS)
    return this.#agent.ask('load')
  }

  async #untilQuiet(): Promise<void> {
    while (Date.now() - (await this.#agent.ask('counts')).lastAt < QUIET_MS)
      await systemClock.sleep(POLL_MS)
  }
}

function idsBetween(first: number, end: number): string[] {
  return Array.from({ length: end - first }, (_, index) => `device-${first + index}`)
}

/** Asks an agent for its health all the time, from a process of its own, as a kubelet does. */
class HealthProbe {
  readonly #kubelet: BenchProcess
  readonly #peer: BenchProcess

  private constructor(bundle: string) {
    this.#kubelet = new BenchProcess(bundle)
    this.#peer = new BenchProcess(bundle)
  }

  static async start(bundle: string, port: number): Promise<HealthProbe> {
    const probe = new HealthProbe(bundle)
    await probe.#kubelet.ask('probe', [port, await probe.#peer.ask('serveHealth')])
    return probe
  }

  /** The longest answers. The peer waits for a processor as the agent does, and does no work. */
  async end(): Promise<Pick<Measurement, 'healthMs' | 'peerHealthMs'>> {
    const [healthMs = 0, peerHealthMs = 0] = await this.#kubelet.ask('probed')
    await Promise.all([this.#kubelet.stop(), this.#peer.stop()])
    return { healthMs, peerHealthMs }
  }
}

function printMeasurements(measurements: readonly Measurement[]): void {
  printRows([
    [
      'offer',
      'devices',
      'offered s',
      'RSS MB',
      'dirty MB',
      'RSS kB each',
      'blocked ms',
      'busy ms',
      '/healthz ms',
      'beside ms',
      'one more: CPU ms',
      'offered ms',
      'restart s',
      'busy ms',
    ],
    ...measurements.map((of) => [
      of.offer,
      String(of.devices),
      of.offeredSeconds.toFixed(1),
      of.residentMegabytes.toFixed(0),
      of.dirtyMegabytes.toFixed(0),
      of.residentPerDevice.toFixed(0),
      of.blockedMs.toFixed(0),
      of.busyMs.toFixed(0),
      of.healthMs.toFixed(0),
      of.peerHealthMs.toFixed(0),
      of.changeCpuMs.toFixed(1),
      of.changeMs.toFixed(0),
      of.restartSeconds.toFixed(1),
      of.restartBusyMs.toFixed(0),
    ]),
  ])
}
