import { isDeepStrictEqual } from 'node:util'
import {
  type AkriError,
  aborted,
  errorText,
  Latest,
  type Logger,
  notedHandlers,
  readableError,
  untilAborted,
} from '@akrijs/runtime'
import { type CheckedDevice, checkInTurns, DeviceListCheck } from './device-list.js'
import { HandlerFailedError, InvalidDeviceListError } from './errors.js'
import { parseDetails } from './handler/details.js'
import { InvalidDetailsError, InvalidHandlerError } from './handler/errors.js'
import type { DiscoveryHandler } from './handler/handler.js'
import type { DiscoveryProperties } from './handler/properties.js'
import {
  DeviceReportCollector,
  equalReportedDevices,
  NO_REPORTED_DEVICES,
  RemarkCollector,
  type ReportedDevices,
} from './reported-devices.js'

export interface DiscoveryRequest {
  /** The text of `discoveryDetails`. */
  readonly details: string
  readonly properties: DiscoveryProperties
  readonly signal: AbortSignal
  readonly log: Logger
  /**
   * Takes the devices that the handler left out of a list, before the list and only if they have
   * changed.
   */
  readonly onLeftOut?: (leftOut: ReportedDevices) => void
}

/** A list, with what the handler tells people about devices. */
export interface ReportedList {
  readonly devices: CheckedDevice[]
  /** The devices that the handler saw, and that the list does not have. */
  readonly leftOut: ReportedDevices
  /** Devices of the list that have a problem. */
  readonly problems: ReportedDevices
  /** On the discovery as a whole. */
  readonly remarks: readonly string[]
}

/**
 * Runs a handler for one Configuration, and does what is the same for all handlers:
 * - parses and validates the details, and checks each list
 * - skips a list that equals the list before
 * - stays open after the handler returned, with its last list; the list is empty if the handler
 *   yielded none
 * - keeps only the newest list for a slow reader
 * - passes on the devices that the handler left out
 *
 * Ends when the signal is aborted, even if the handler ignores the signal.
 *
 * @throws InvalidDetailsError, InvalidDeviceListError, HandlerFailedError
 */
export async function* openDiscovery<Details>(
  handler: DiscoveryHandler<Details>,
  { onLeftOut, ...request }: DiscoveryRequest,
): AsyncGenerator<CheckedDevice[], void, void> {
  let last: Partial<ReportedList> = {}
  for await (const list of followDiscovery(handler, request)) {
    const { devices, leftOut: before = NO_REPORTED_DEVICES } = last
    last = list
    if (!equalReportedDevices(before, list.leftOut)) onLeftOut?.(list.leftOut)
    if (devices !== list.devices) yield list.devices
  }
}

/**
 * The same with what the handler tells people about devices: also follows a change of that alone,
 * with the same array of devices as before.
 *
 * @throws InvalidDetailsError, InvalidDeviceListError, HandlerFailedError
 */
export async function* followDiscovery<Details>(
  handler: DiscoveryHandler<Details>,
  { details: text, properties, signal, log }: Omit<DiscoveryRequest, 'onLeftOut'>,
): AsyncGenerator<ReportedList, void, void> {
  if (signal.aborted) return
  // A schema can take long, or never answer.
  const parsed = await untilAborted(detailsOf(handler, text), signal)
  if (parsed === undefined) return
  const { details } = parsed
  // The handler's signal is also aborted when the reader stops, or when the handler breaks the
  // contract.
  const stop = new AbortController()
  const handlerSignal = AbortSignal.any([signal, stop.signal])
  const lists = new Latest<ReportedList>()
  void aborted(handlerSignal).then(() => lists.end())

  const run = async () => {
    let last: ReportedList | undefined
    const check = new DeviceListCheck()
    const leftOutReports = new DeviceReportCollector()
    const problemReports = new DeviceReportCollector()
    const allRemarks = new RemarkCollector()
    const push = async (list: unknown) => {
      const devices = await checkInTurns(list, check)
      if (handlerSignal.aborted) return
      const now = {
        devices,
        leftOut: leftOutReports.take(),
        problems: problemReports.take(),
        remarks: allRemarks.take(),
      }
      const before = last
      last = now
      const isSame = (kind: 'leftOut' | 'problems') =>
        equalReportedDevices(before?.[kind] ?? NO_REPORTED_DEVICES, now[kind])
      logChange(log, isSame('leftOut') ? NO_REPORTED_DEVICES : now.leftOut, 'devices left out')
      logChange(log, isSame('problems') ? NO_REPORTED_DEVICES : now.problems, 'device problems')
      const hasSameRemarks = isDeepStrictEqual(before?.remarks ?? [], now.remarks)
      if (!hasSameRemarks) log.debug({ remarks: now.remarks }, 'discovery remarks')
      const isAllSame = hasSameRemarks && isSame('leftOut') && isSame('problems')
      if (before?.devices !== devices || !isAllSame) lists.push(now)
    }
    const context = {
      details,
      properties,
      signal: handlerSignal,
      log,
      leaveOut: (...report: Report) => leftOutReports.add(...report),
      reportProblem: (...report: Report) => problemReports.add(...report),
      remark: (text: unknown) => allRemarks.add(text),
    }
    for await (const list of handler.discover(context)) {
      if (handlerSignal.aborted) return
      await push(list)
      // Other work gets a turn, even if the handler yields without a pause.
      await new Promise((resolve) => setImmediate(resolve))
      // A resumed handler would miss the abort event if it starts to listen only now.
      if (handlerSignal.aborted) return
    }
    if (last === undefined && !handlerSignal.aborted) await push([])
  }
  // Not awaited at the end: a handler that ignores its signal must not delay the reader.
  run().catch((thrown: unknown) => {
    const error = readableError(thrown)
    if (handlerSignal.aborted) return log.debug({ err: error }, 'handler ended')
    lists.end(failureOf(handler, error))
  })

  try {
    yield* lists
  } finally {
    stop.abort()
  }
}

/** The longest text of what a handler threw, with its causes, in characters. */
const MAX_FAILURE = 1000

/** At run time a handler is JavaScript. */
type Report = readonly [id: unknown, reason: unknown, detail?: unknown]

function logChange(log: Logger, reported: ReportedDevices, message: string): void {
  if (reported.devices.length > 0)
    log.debug({ ...reported, reasons: Object.fromEntries(reported.reasons) }, message)
}

async function detailsOf<Details>(
  handler: DiscoveryHandler<Details>,
  text: string,
): Promise<{ readonly details: Details }> {
  try {
    return { details: await parseDetails(text, handler.details) }
  } catch (error) {
    throw failureOf(handler, readableError(error))
  }
}

function failureOf(handler: { readonly name: string }, error: unknown): AkriError {
  // These name what is wrong by themselves; their stacks explain nothing.
  if (InvalidDetailsError.is(error)) return error
  for (const BrokenContract of [InvalidDeviceListError, InvalidHandlerError])
    if (BrokenContract.is(error)) return new BrokenContract(withHandler(handler, error.message))
  const message = `handler ${handler.name} failed: ${errorText(error).slice(0, MAX_FAILURE)}`
  return new HandlerFailedError(message, error)
}

/** Names the handler and the file of its module, which the stack of a check does not have. */
function withHandler({ name }: { readonly name: string }, message: string): string {
  const subject = `handler ${name}: `
  const [file, ...others] = [...notedHandlers()].filter(([, noted]) => noted === name)
  const place = file !== undefined && others.length === 0 ? ` (${file[0]})` : ''
  return `${message.startsWith(subject) ? '' : subject}${message}${place}`
}
