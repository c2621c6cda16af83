import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { detailsWarnings } from '@akrijs/api'
import {
  type Clock,
  fieldOf,
  InvalidOptionError,
  messageOf,
  runAfter,
  systemClock,
  untilAborted,
} from '@akrijs/runtime'
import { type ProcessContext, print, redirectOutput } from '@akrijs/runtime/program'
import {
  type DiscoveryHandler,
  DiscoveryProperties,
  InvalidDetailsError,
} from '@akrijs/sdk/handler'
import { handlerSpecifier } from '@akrijs/sdk/handler-options'
import { followDiscovery, type ReportedList } from '@akrijs/sdk/host'
import { EXAMPLE_DETAILS, HANDLERS_FROM } from '../built-in-handlers.js'
import type { DiscoverOptions } from '../command-options.js'
import { findHandler } from '../handler-source.js'
import { listText } from '../view/list-text.js'
import { hasColorsOnStderr } from '../view/terminal-log.js'
import { FirstListWait } from '../watch/first-list.js'
import { watchHandler } from '../watch/watch-handler.js'

/** Many handlers begin with an empty list, and wait for events. In milliseconds. */
const WAIT_MS = 5000

/** `akri discover`: shows the devices that a handler finds, without an agent. */
export async function discover(
  handler: string,
  options: DiscoverOptions,
  context: ProcessContext,
): Promise<void> {
  const file = handlerSpecifier(handler)
  if (options.watch && path.isAbsolute(file)) return discoverFromFile(file, options, context)
  const { log, mayBlock } = context
  // An author looks for the text: the level is one that is shown by default.
  redirectOutput(log, 'warn')
  const { details, properties } = await mayBlock(() => requestOf(options))
  const form = options.json ? 'json' : 'text'
  // Node.js ends a process that waits for nothing but a promise.
  const alive = setInterval(() => {}, 1_000_000)
  try {
    await showLists({
      ...context,
      ...options,
      details,
      properties,
      handlerName: handler,
      load: () => mayBlock(async () => (await findHandler(handler, HANDLERS_FROM)).load()),
      show: (list) => print(process.stdout, `${listText(list, form)}\n`),
      tell: (message, text) => {
        if (options.logFormat === 'json') log.warn({ text }, message)
        else print(process.stderr, `akri: ${text}\n`)
      },
      clock: systemClock,
    })
  } finally {
    clearInterval(alive)
  }
}

export interface Showing
  extends Pick<DiscoverOptions, 'watch' | 'once'>,
    Pick<ProcessContext, 'log' | 'signal' | 'stop'> {
  /** What the command line calls the handler. */
  readonly handlerName: string
  readonly details: string
  readonly properties: DiscoveryProperties
  readonly clock: Clock
  load(): Promise<DiscoveryHandler>
  show(list: ReportedList): void
  /** Takes what a person should know. @param message constant, for a log */
  tell(message: string, text: string): void
}

/**
 * Shows the lists of a handler until the signal is aborted; without `watch`, it stops the program
 * after the first list that tells something.
 * @throws NoListError if no list comes
 */
export async function showLists(showing: Showing): Promise<void> {
  const { watch, once, details, properties, log, signal, stop, clock, load, show, tell } = showing
  const first = new FirstListWait({
    clock,
    signal,
    isEndless: watch,
    note: (text) => tell('first list is late', text),
  })
  const untilOverdue = AbortSignal.any([signal, first.overdue])
  try {
    // The code of a module can wait for what never comes.
    const handler = await untilAborted(load(), untilOverdue)
    for (const warning of handler === undefined ? [] : await detailsWarnings(details, handler))
      tell('details may be wrong', `warning: ${warning}`)
    const request = { details, properties, log, signal: untilOverdue }
    let last: ReportedList | undefined
    for await (const list of handler === undefined ? [] : followDiscovery(handler, request)) {
      first.end()
      const isFirst = last === undefined
      last = list
      if (watch || once || !isEmpty(list)) {
        show(list)
        if (!watch) return stop()
      } else if (isFirst) {
        const text =
          `nothing found so far; waiting ${WAIT_MS / 1000} s for another list ` +
          '(--watch goes on, --once does not wait)'
        tell('first list was empty', text)
        runAfter(clock, WAIT_MS, signal, () => {
          if (last !== undefined) show(last)
          stop()
        })
      }
    }
    if (first.overdue.aborted) throw first.failure()
  } catch (error) {
    throw withExample(error, showing)
  } finally {
    first.end()
  }
}

/** A failure without details has a command with details to copy. */
function withExample(error: unknown, { handlerName, details }: Showing): unknown {
  if (!InvalidDetailsError.is(error) || details.trim() !== '') return error
  const example = fieldOf(EXAMPLE_DETAILS, handlerName)
  const advice =
    typeof example === 'string'
      ? `for example: akri discover ${handlerName} --details-text '${example}'`
      : 'give the details by --details FILE or --details-text YAML'
  return new InvalidDetailsError(`${error.message}\n${advice}`)
}

/** Follows the handler of a file or directory of an author, who edits it. */
async function discoverFromFile(
  handler: string,
  options: DiscoverOptions,
  { log, signal, mayBlock, onSuddenEnd }: ProcessContext,
): Promise<void> {
  const { logLevel, logFormat, details: detailsFile } = options
  const isColored = hasColorsOnStderr(options.color)
  const form = options.json ? 'json' : 'text'
  // These fail now, and not with each version of the handler.
  const first = await mayBlock(() => requestOf(options))
  const properties = [...first.properties.entries()]
  const isInFile = detailsFile !== undefined && detailsFile !== '-'
  await watchHandler({
    handler,
    files: isInFile ? [path.resolve(detailsFile)] : [],
    signal,
    log,
    onSuddenEnd,
    request: async () => {
      const details = isInFile ? await detailsOf(options) : first.details
      return { handler, details, properties, form, logLevel, logFormat, isColored }
    },
    onList: (text) => void process.stdout.write(`${text}\n`),
    onFailure: (text) => {
      // A reader of JSON must not take the last list for the present one.
      if (options.json) process.stdout.write(`${JSON.stringify({ error: text })}\n`)
      if (logFormat === 'json') log.error({ text }, 'handler failed')
      else process.stderr.write(`${text}\n`)
    },
    onState: (text) => {
      if (logFormat === 'json') log.warn({ text }, 'handler watched')
      else process.stderr.write(`akri: ${text}\n`)
    },
  })
}

/** Whether a list has no device, and no reason for that. */
function isEmpty({ devices, leftOut }: ReportedList): boolean {
  return devices.length === 0 && leftOut.devices.length === 0
}

/**
 * The details and the properties of a command line.
 * @throws InvalidOptionError
 */
export async function requestOf(
  options: Pick<DiscoverOptions, 'details' | 'detailsText' | 'property'>,
): Promise<{ readonly details: string; readonly properties: DiscoveryProperties }> {
  refuseSecondStdin(options)
  return { details: await detailsOf(options), properties: await propertiesOf(options.property) }
}

/** The program can read standard input only once. */
function refuseSecondStdin({ details, property }: Parameters<typeof requestOf>[0]): void {
  const [first, second] = [
    ...(details === '-' ? ['--details -'] : []),
    ...property.filter((each) => /^\w+=@-$/.test(each)).map((each) => `--property ${each}`),
  ]
  if (second !== undefined)
    throw new InvalidOptionError(
      `${first} and ${second} both read standard input; give one of them a file`,
    )
}

async function detailsOf({
  details,
  detailsText,
}: Omit<Parameters<typeof requestOf>[0], 'property'>): Promise<string> {
  if (details !== undefined && detailsText !== undefined)
    throw new InvalidOptionError('give one of --details and --details-text')
  return details === undefined ? (detailsText ?? '') : await readText(details, '--details')
}

async function propertiesOf(properties: readonly string[]): Promise<DiscoveryProperties> {
  const values = properties.map(async (property): Promise<[string, Uint8Array]> => {
    const [, name, at, value] = /^([_A-Za-z]\w*)=(@?)(.*)$/s.exec(property) ?? []
    if (name === undefined || value === undefined)
      throw new InvalidOptionError(
        `--property ${JSON.stringify(property)} is not NAME=VALUE or NAME=@FILE`,
      )
    return [name, Buffer.from(at === '@' ? await readText(value, '--property') : value)]
  })
  return new DiscoveryProperties(await Promise.all(values))
}

async function readText(file: string, option: string): Promise<string> {
  try {
    // Not /dev/stdin, which cannot be opened if it is a socket.
    return await (file === '-' ? text(process.stdin) : readFile(file, 'utf8'))
  } catch (error) {
    throw new InvalidOptionError(`${option} ${file} cannot be read: ${messageOf(error)}`, {
      cause: error,
    })
  }
}
