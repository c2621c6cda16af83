import os from 'node:os'
import path from 'node:path'
import { aborted, Closer, printable, systemClock } from '@akrijs/runtime'
import {
  BrokerLedger,
  BrokerSet,
  FinishedJobs,
  makeStateDirectory,
  startStandalone,
} from '@akrijs/standalone'
import { HANDLERS_FROM } from '../built-in-handlers.js'
import type { RunOptions } from '../command-options.js'
import { serveControl } from '../control/control-server.js'
import { UsageError } from '../errors.js'
import { nodeNameOfHost } from '../node-name.js'
import { endOnOutputError } from '../output-errors.js'
import { controlSocketIn, removeSocketsLink, socketDirectory, writeSocketsLink } from '../places.js'
import { StopSignals } from '../stop-signals.js'
import { drawAgent } from '../view/agent-picture.js'
import { LiveView } from '../view/live-view.js'
import { peopleLogger } from '../view/people-log.js'

/** How many lines are kept for the live view. */
const KEPT_LINES = 50

/** `akri run`: runs the agent until Ctrl-C or SIGTERM. A second signal ends it at once. */
export async function run(options: RunOptions): Promise<void> {
  const closer = new Closer()
  try {
    await runUntilStopped(options, closer)
  } finally {
    await closer.close()
  }
}

async function runUntilStopped(
  { file, handler, isolated, handlerVariables, stateDir, node, logLevel, plain }: RunOptions,
  closer: Closer,
): Promise<void> {
  if (file.length === 0)
    throw new UsageError('nothing to run: give Configurations with -f FILE or -f DIRECTORY')
  const isLive = process.stdout.isTTY && !plain
  let view: LiveView | undefined
  const ledger = new BrokerLedger(path.join(stateDir, 'brokers.json'))
  const stop = new StopSignals(() => {
    view?.close()
    ledger.kill()
  })
  // A closed output ends the program as Ctrl-C does, so that no broker is left.
  process.stdout.off('error', endOnOutputError)
  process.stdout.on('error', () => stop.abort())

  const redraw = () => view?.redraw()
  const lines: string[] = []
  const print = (line: string) => {
    if (!isLive) process.stdout.write(`${line}\n`)
    lines.push(line)
    if (lines.length > KEPT_LINES) lines.shift()
    redraw()
  }
  const log = peopleLogger(print, logLevel)
  await makeStateDirectory(stateDir)
  const sockets = await socketDirectory(stateDir)
  const standalone = await startStandalone({
    manifests: file,
    stateDirectory: stateDir,
    socketDirectory: sockets,
    node: node ?? nodeNameOfHost(os.hostname()),
    handlers: handler,
    isolated,
    handlerVariables,
    handlersFrom: HANDLERS_FROM,
    log,
  })
  closer.add(() => standalone.close())
  const leftovers = await ledger.endLeftovers()
  if (leftovers.length > 0) log.warn({ pids: leftovers }, 'brokers of a killed agent ended')
  const finished = await FinishedJobs.open(path.join(stateDir, 'jobs.json'))
  stop.endInOrder()

  const brokers = new BrokerSet({
    standalone,
    ledger,
    finished,
    clock: systemClock,
    log,
    environment: process.env,
    onLine: (broker, line) => print(`[${broker}] ${printable(line)}`),
    onChange: redraw,
  })
  await writeSocketsLink(stateDir, sockets)
  closer.add(() => removeSocketsLink(stateDir))
  closer.add(() => brokers.close())
  brokers.start()
  const control = await serveControl(controlSocketIn(sockets), standalone, brokers)
  closer.add(() => control.close())

  if (isLive) {
    view = new LiveView({
      terminal: process.stdout,
      draw: (size) => drawAgent({ standalone, brokers, lines, ...size }),
    })
    closer.add(() => view?.close())
  }
  standalone.cluster.instances.onChange(redraw, stop.signal)
  standalone.cluster.configurations.onChange(redraw, stop.signal)
  standalone.onProblems(redraw, stop.signal)
  await aborted(stop.signal)
}
