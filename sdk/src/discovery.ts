import { AkriError, defineError, Latest, type Logger, messageOf } from '@akrijs/runtime'
import {
  type Device,
  type DeviceList,
  type DiscoveryHandler,
  type DiscoveryProperties,
  parseDetails,
} from '@akrijs/runtime/handler'
import { checkDeviceList, equalDeviceLists } from './device-list.js'

export interface DiscoveryRequest {
  /** The text of `discoveryDetails`. */
  readonly details: string
  readonly properties: DiscoveryProperties
  readonly signal: AbortSignal
  readonly log: Logger
}

/** A handler threw, and not one of the errors that this package knows. gRPC: UNKNOWN. */
export class HandlerFailedError extends defineError('AKRI_ERR_HANDLER_FAILED', 'transient') {}

/**
 * Asks a handler, and owns everything that is the same for all handlers: parses and validates the details, checks each
 * list, leaves out lists that say nothing new, and stays open after the handler returned, with its last list (the empty
 * one if it gave none). Only the newest list is kept for a slow reader. Ends when the signal is aborted, also where the
 * handler takes no notice of it.
 *
 * @throws InvalidDetailsError, InvalidDeviceListError, HandlerFailedError
 */
export async function* openDiscovery<Details>(
  handler: DiscoveryHandler<Details>,
  { details: text, properties, signal, log }: DiscoveryRequest,
): AsyncGenerator<Required<Device>[], void, void> {
  if (signal.aborted) return
  const parsed = await untilAborted(detailsOf(handler, text), signal)
  if (parsed === undefined) return
  const { details } = parsed
  // The handler's own signal: also aborted when the reader stops, or when the handler breaks the contract.
  const stop = new AbortController()
  const lists = new Latest<Required<Device>[]>()
  const onAbort = () => {
    stop.abort(signal.reason)
    lists.end()
  }
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()

  const run = async () => {
    let last: DeviceList | undefined
    const give = (list: unknown) => {
      const checked = checkDeviceList(list)
      if (last === undefined || !equalDeviceLists(last, checked)) lists.push(checked)
      last = checked
    }
    for await (const list of handler.discover({ details, properties, signal: stop.signal, log })) {
      if (stop.signal.aborted) return
      give(list)
      // A handler that yields without ever waiting would not let anything else happen.
      await new Promise((resolve) => setImmediate(resolve))
      // Return rather than resume: a handler that only now listens to its signal would never hear of it.
      if (stop.signal.aborted) return
    }
    if (last === undefined && !stop.signal.aborted) give([])
  }
  // Not awaited at the end: a handler that ignores its signal must not hold up those who asked.
  run().catch((error: unknown) => {
    if (stop.signal.aborted) return log.debug({ err: error }, 'handler ended')
    lists.end(failureOf(handler, error))
  })

  try {
    yield* lists
  } finally {
    signal.removeEventListener('abort', onAbort)
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
  return new HandlerFailedError(`handler ${handler.name} failed: ${messageOf(error)}`, {
    cause: error,
  })
}

/** Undefined once the signal is aborted: a schema may take its time, or never answer. */
async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  let onAbort = () => {}
  const aborted = new Promise<undefined>((resolve) => {
    onAbort = () => resolve(undefined)
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
