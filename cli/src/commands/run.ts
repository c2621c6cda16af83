import os from 'node:os'
import path from 'node:path'
import { aborted, systemClock } from '@akrijs/runtime'
import {
  BrokerLedger,
  BrokerSet,
  FinishedJobs,
  makeStateDirectory,
  startStandalone,
} from '@akrijs/standalone'
import { serveControl } from '../control/control-server.js'
import { UsageError } from '../errors.js'
import { nodeNameOfHost } from '../node-name.js'
import {
  controlSocketIn,
  leaveWordOfSockets,
  socketDirectory,
  takeWordOfSocketsBack,
} from '../places.js'
import { StopSignals } from '../stop-signals.js'
import { drawAgent } from '../view/agent-picture.js'
import { LiveView } from '../view/live-view.js'
import { peopleLogger } from '../view/people-log.js'
import { printable } from '../view/table.js'

export interface RunOptions {
  readonly file: readonly string[]
  readonly handler: readonly string[]
  readonly isolated: boolean
  readonly stateDir: string
  readonly node: string | undefined
  readonly logLevel: string
  readonly plain: boolean
}

/** How many lines are kept for the picture. */
const KEPT_LINES = 50

/** `akri run`: the agent of this machine, until Ctrl-C or SIGTERM; a second one does not wait for brokers. */
export async function run(
  { file, handler, isolated, stateDir, node, logLevel, plain }: RunOptions,
  packagesFrom: string,
): Promise<void> {
  if (file.length === 0)
    throw new UsageError('nothing to run: give Configurations with -f FILE or -f DIRECTORY')
  const live = process.stdout.isTTY && !plain
  let view: LiveView | undefined
  const ledger = new BrokerLedger(path.join(stateDir, 'brokers.json'))
  const stop = new StopSignals(() => {
    view?.close()
    ledger.kill()
  })
  // Whoever read our lines is gone: end as by Ctrl-C, so that no broker is left.
  process.stdout.on('error', () => stop.abort())

  const redraw = () => view?.redraw()
  const lines: string[] = []
  const say = (line: string) => {
    if (!live) process.stdout.write(`${line}\n`)
    lines.push(line)
    if (lines.length > KEPT_LINES) lines.shift()
    redraw()
  }
  const log = peopleLogger(say, logLevel)
  await makeStateDirectory(stateDir)
  const sockets = await socketDirectory(stateDir)
  const standalone = await startStandalone({
    manifests: file,
    stateDirectory: stateDir,
    socketDirectory: sockets,
    node: node ?? nodeNameOfHost(os.hostname()),
    handlers: handler,
    isolated,
    handlersFrom: packagesFrom,
    log,
  })
  const left = await ledger.endLeftovers()
  if (left.length > 0)
    log.warn({ pids: left }, 'ended brokers that an agent that was killed has left running')
  const finished = await FinishedJobs.open(path.join(stateDir, 'jobs.json'))
  stop.endInOrder()
  const brokers = new BrokerSet({
    standalone,
    ledger,
    finished,
    clock: systemClock,
    log,
    environment: process.env,
    onLine: (broker, line) => say(`[${broker}] ${printable(line)}`),
    onChange: redraw,
  })
  brokers.start()
  const serving = leaveWordOfSockets(stateDir, sockets).then(() =>
    serveControl(controlSocketIn(sockets), standalone, brokers),
  )
  const control = await serving.catch(async (error: unknown) => {
    await brokers.close()
    await standalone.close()
    throw error
  })

  if (live) {
    view = new LiveView({
      terminal: process.stdout,
      draw: (size) => drawAgent({ standalone, brokers, lines, ...size }),
    })
  }
  standalone.cluster.instances.onChange(redraw, stop.signal)
  standalone.cluster.configurations.onChange(redraw, stop.signal)
  standalone.onProblems(redraw, stop.signal)

  await aborted(stop.signal)
  view?.close()
  await control.close()
  await brokers.close()
  await takeWordOfSocketsBack(stateDir)
  await standalone.close()
}
