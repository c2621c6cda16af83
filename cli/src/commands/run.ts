import os from 'node:os'
import path from 'node:path'
import {
  AkriError,
  aborted,
  chainOf,
  InvalidOptionError,
  type Logger,
  messageOf,
  printable,
  systemClock,
  writeProblem,
} from '@akrijs/runtime'
import {
  isClosedOutput,
  outputError,
  type ProcessContext,
  print,
  redirectOutput,
} from '@akrijs/runtime/program'
import {
  BrokerLedger,
  BrokerSet,
  FinishedJobs,
  makeStateDirectory,
  StateFileError,
  startStandalone,
} from '@akrijs/standalone'
import { serveUi, type UiServer } from '@akrijs/ui'
import { HANDLERS_FROM } from '../built-in-handlers.js'
import type { RunOptions } from '../command-options.js'
import { serveControl } from '../control/control-server.js'
import { findHandler } from '../handler-source.js'
import { nodeNameOfHost } from '../node-name.js'
import { AgentObjects } from '../objects/agent-objects.js'
import { kindOf } from '../objects/kinds.js'
import { endOnOutputError } from '../output-errors.js'
import { PAGE } from '../page-files.js'
import {
  controlSocketIn,
  removeSocketsLink,
  requireStateDirectory,
  socketDirectory,
  writeSocketsLink,
} from '../places.js'
import { StandaloneSource } from '../ui/standalone-source.js'
import { StandaloneTrial } from '../ui/standalone-trial.js'
import { hasColors, isCapable, withColoredLevel } from '../view/colors.js'
import { logDevices } from '../view/device-log.js'
import { LiveScreen } from '../view/live-screen.js'
import { peopleLogger } from '../view/people-log.js'
import { RunOutput } from '../view/run-output.js'
import { descriptionOf } from './describe.js'

/** `akri run`: runs the agent until the signal is aborted, or the output is closed. */
export async function run(options: RunOptions, context: ProcessContext): Promise<void> {
  try {
    await runAgent(options, context)
  } catch (error) {
    throw await stateProblem(error, options.stateDir)
  }
}

/** One line with a remedy, whichever call could not write (or read) the state. */
async function stateProblem(error: unknown, stateDir: string): Promise<unknown> {
  if (AkriError.is(error) && !StateFileError.is(error)) return error
  const text = chainOf(error).map(messageOf).join('\n')
  const problem = writeProblem(text, {
    directories: [stateDir, await socketDirectory(stateDir)],
    elsewhere: 'choose another directory with --state-dir',
  })
  return problem === undefined ? error : new StateFileError(problem, { cause: error })
}

async function runAgent(
  options: RunOptions,
  { signal, closer, stop, mayBlock, onSuddenEnd, log: programLog }: ProcessContext,
): Promise<void> {
  const { file, handler, isolated, handlerVariables, stateDir, node, logLevel } = options
  if (file.length === 0)
    throw new InvalidOptionError('nothing to run: give Configurations with -f FILE or -f DIRECTORY')
  requireStateDirectory(stateDir)
  const nodeName = node ?? nodeNameOfHost(os.hostname())
  const ledger = new BrokerLedger(path.join(stateDir, 'brokers.json'))
  const stdout = { isTTY: process.stdout.isTTY, environment: process.env }
  const isColored = hasColors(options.color, stdout)
  const isJson = options.logFormat === 'json'
  const isLive = isCapable(stdout) && !options.plain && !isJson
  const output = new RunOutput(isLive, isColored)
  onSuddenEnd(() => output.close())
  // An output that takes no text ends the program as Ctrl-C does, so that no broker is left.
  let failure: Error | undefined
  const stopOnOutputError = (error: NodeJS.ErrnoException) => {
    if (!isClosedOutput(error)) failure ??= outputError(error)
    stop()
  }
  process.stdout.off('error', endOnOutputError).on('error', stopOnOutputError)
  closer.add(() => {
    process.stdout.off('error', stopOnOutputError).on('error', endOnOutputError)
    if (failure !== undefined) throw failure
  })

  const log = isJson
    ? programLog
    : peopleLogger(
        // The live view has styles of its own.
        (line) => output.print(isColored && !isLive ? withColoredLevel(line) : line),
        logLevel,
      )
  redirectOutput(log)
  onSuddenEnd(() => {
    const pids = ledger.kill()
    if (pids.length > 0) log.warn({ pids }, 'brokers go on: they run as another user')
  })
  const { sockets, standalone, finished } = await mayBlock(async () => {
    await makeStateDirectory(stateDir)
    const sockets = await socketDirectory(stateDir)
    const standalone = await startStandalone({
      manifests: file,
      stateDirectory: stateDir,
      socketDirectory: sockets,
      node: nodeName,
      handlers: handler,
      isolated,
      handlerVariables,
      logLevel,
      handlersFrom: HANDLERS_FROM,
      findHandler,
      log,
    })
    closer.add(() => standalone.close())
    const leftovers = await ledger.endLeftovers()
    if (leftovers.ended.length > 0)
      log.warn({ pids: leftovers.ended }, 'brokers of a killed agent ended')
    if (leftovers.left.length > 0)
      log.warn(
        { pids: leftovers.left },
        'brokers of an earlier agent go on: they run as another user, and use their devices',
      )
    const finished = await FinishedJobs.open(path.join(stateDir, 'jobs.json'))
    return { sockets, standalone, finished }
  })

  logDevices(standalone, log, signal)
  const redraw = () => output.redraw()
  const brokers = new BrokerSet({
    standalone,
    ledger,
    finished,
    clock: systemClock,
    log,
    environment: process.env,
    onLine: (broker, line) => {
      if (isJson) log.info({ broker, text: printable(line) }, 'text of a broker')
      else output.print(`[${broker}] ${printable(line)}`)
    },
    onChange: (instance) => {
      redraw()
      source.brokerChanged(instance)
    },
  })
  const about = { title: nodeName }
  const trial = new StandaloneTrial({
    standalone,
    manifests: file,
    writes: options.write,
    isolated,
    handlerVariables,
    log,
  })
  const source = new StandaloneSource({ about, standalone, brokers, isolated, trial })
  await writeSocketsLink(stateDir, sockets)
  closer.add(() => removeSocketsLink(stateDir))
  closer.add(() => brokers.close())
  brokers.start()
  const control = await serveControl(controlSocketIn(sockets), standalone, brokers)
  closer.add(() => control.close())
  const page = await servePage(options, source, log)
  if (page !== undefined) closer.own(page)
  if (isJson && page !== undefined) log.info({ address: page.address }, 'page served')
  else if (!isLive && page !== undefined)
    print(process.stdout, `akri: open the page with the devices: ${page.address}\n`)

  const address = page?.address ?? ''
  const objects = new AgentObjects(controlSocketIn(sockets))
  output.open(
    new LiveScreen({
      picture: { standalone, brokers, address, lines: output.lines },
      describe: async ({ kind, name }) =>
        (await descriptionOf(kindOf(kind), name, objects)) ?? [
          `there is no ${kind} ${name} any more`,
        ],
      redraw,
      end: stop,
    }),
  )
  closer.add(() => output.close())
  standalone.cluster.instances.onChange(redraw, signal)
  standalone.cluster.configurations.onChange(redraw, signal)
  standalone.onProblems(redraw, signal)
  await aborted(signal)
}

/** Serves the page, unless the options leave it out. */
async function servePage(
  { ui, logFormat }: RunOptions,
  source: StandaloneSource,
  log: Logger,
): Promise<UiServer | undefined> {
  if (ui === false || (ui === undefined && logFormat === 'json')) return undefined
  try {
    const remedy = 'choose another port with --ui, or leave the page out with --no-ui'
    return await serveUi({ source, page: PAGE, port: ui ?? 0, clock: systemClock, log, remedy })
  } catch (err) {
    // A port that a person named is in a bookmark or a script: another address is no help.
    if (ui !== undefined) throw err
    log.warn({ err }, 'page not served')
    return undefined
  }
}
