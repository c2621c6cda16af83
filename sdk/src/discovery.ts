import { AkriError, aborted, Latest, type Logger, messageOf, untilAborted } from '@akrijs/runtime'
import {
  type DiscoveryHandler,
  type DiscoveryProperties,
  parseDetails,
} from '@akrijs/runtime/handler'
import { type CheckedDevice, checkDeviceList, equalDeviceLists } from './device-list.js'
import { HandlerFailedError } from './errors.js'

export interface DiscoveryRequest {
  /** The text of `discoveryDetails`. */
  readonly details: string
  readonly properties: DiscoveryProperties
  readonly signal: AbortSignal
  readonly log: Logger
}

/**
 * Runs a handler for one Configuration, and does what is the same for all handlers:
 * - parses and validates the details, and checks each list
 * - skips a list that equals the list before
 * - stays open after the handler returned, with its last list; the list is empty if the handler
 *   yielded none
 * - keeps only the newest list for a slow reader
 *
 * Ends when the signal is aborted, even if the handler ignores the signal.
 *
 * @throws InvalidDetailsError, InvalidDeviceListError, HandlerFailedError
 */
export async function* openDiscovery<Details>(
  handler: DiscoveryHandler<Details>,
  { details: text, properties, signal, log }: DiscoveryRequest,
): AsyncGenerator<CheckedDevice[], void, void> {
  if (signal.aborted) return
  // A schema can take long, or never answer.
  const parsed = await untilAborted(detailsOf(handler, text), signal)
  if (parsed === undefined) return
  const { details } = parsed
  // The handler's signal is also aborted when the reader stops, or when the handler breaks the
  // contract.
  const stop = new AbortController()
  const handlerSignal = AbortSignal.any([signal, stop.signal])
  const lists = new Latest<CheckedDevice[]>()
  void aborted(handlerSignal).then(() => lists.end())

  const run = async () => {
    let last: CheckedDevice[] | undefined
    const push = (list: unknown) => {
      const checked = checkDeviceList(list)
      if (last === undefined || !equalDeviceLists(last, checked)) lists.push(checked)
      last = checked
    }
    const context = { details, properties, signal: handlerSignal, log }
    for await (const list of handler.discover(context)) {
      if (handlerSignal.aborted) return
      push(list)
      // Other work gets a turn, even if the handler yields without a pause.
      await new Promise((resolve) => setImmediate(resolve))
      // A resumed handler would miss the abort event if it starts to listen only now.
      if (handlerSignal.aborted) return
    }
    if (last === undefined && !handlerSignal.aborted) push([])
  }
  // Not awaited at the end: a handler that ignores its signal must not delay the reader.
  run().catch((error: unknown) => {
    if (handlerSignal.aborted) return log.debug({ err: error }, 'handler ended')
    lists.end(failureOf(handler, error))
  })

  try {
    yield* lists
  } finally {
    stop.abort()
  }
}

async function detailsOf<Details>(
  handler: DiscoveryHandler<Details>,
  text: string,
): Promise<{ readonly details: Details }> {
  try {
    return { details: await parseDetails(text, handler.details) }
  } catch (error) {
    throw failureOf(handler, error)
  }
}

function failureOf(handler: { readonly name: string }, error: unknown): AkriError {
  if (AkriError.is(error)) return error
  return new HandlerFailedError(`handler ${handler.name} failed: ${messageOf(error)}`, error)
}
