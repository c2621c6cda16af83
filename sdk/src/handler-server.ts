import { setMaxListeners } from 'node:events'
import { promisify } from 'node:util'
import {
  type DiscoverRequest,
  type DiscoverResponse,
  DiscoveryHandlerService,
} from '@akrijs/proto/discovery'
import {
  AkriError,
  aborted,
  type Logger,
  messageOf,
  SocketUnusableError,
  untilAborted,
} from '@akrijs/runtime'
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  status,
} from '@grpc/grpc-js'
import { followDiscovery } from './discovery.js'
import type { DiscoveryHandler } from './handler/handler.js'
import type { HandlerMetrics } from './metrics.js'
import { countOf, deviceReports } from './reported-devices.js'
import { answerHeaders, MAX_ANSWER_BYTES, propertiesFromWire, sendsReports } from './wire.js'

export interface DiscoveryServerOptions {
  readonly handler: DiscoveryHandler
  /** `unix:<path>` or `<address>:<port>`. */
  readonly address: string
  readonly log: Logger
  readonly metrics: HandlerMetrics
}

/** A handler's gRPC server: one discovery for each stream that an agent opens. */
export interface DiscoveryServer {
  /** The port of the server; 0 for a unix socket. */
  readonly port: number
  /** Ends all streams with UNAVAILABLE and stops listening. */
  close(): Promise<void>
}

export async function serveDiscovery(options: DiscoveryServerOptions): Promise<DiscoveryServer> {
  const { handler, address } = options
  const closing = new AbortController()
  // Each stream listens to the signal, and Node.js would warn of a leak.
  setMaxListeners(0, closing.signal)
  const streams = new Set<Promise<void>>()
  const server = new Server({
    'grpc.max_send_message_length': MAX_ANSWER_BYTES,
    'grpc.max_receive_message_length': MAX_ANSWER_BYTES,
  })
  server.addService(DiscoveryHandlerService, {
    discover: (call: ServerWritableStream<DiscoverRequest, DiscoverResponse>) => {
      const stream = answer(call, options, closing.signal).finally(() => streams.delete(stream))
      streams.add(stream)
    },
  })
  const bind = promisify(server.bindAsync.bind(server))
  const port = await bind(address, ServerCredentials.createInsecure()).catch((cause: unknown) => {
    throw new SocketUnusableError(
      `handler ${handler.name} cannot listen on ${address}: ${messageOf(cause)}`,
      { cause },
    )
  })
  return {
    port,
    async close() {
      closing.abort()
      await Promise.all(streams)
      await new Promise<void>((resolve) => {
        // An agent that keeps its connection open must not delay the end of this process.
        const timer = setTimeout(() => server.forceShutdown(), GRACE_MS)
        server.tryShutdown(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
  }
}

/** The time for peers to read the end of their streams, in milliseconds. */
const GRACE_MS = 500

async function answer(
  call: ServerWritableStream<DiscoverRequest, DiscoverResponse>,
  { handler, log, metrics }: DiscoveryServerOptions,
  closing: AbortSignal,
): Promise<void> {
  const ended = new AbortController()
  void aborted(closing, ended.signal).then(() => ended.abort())
  call.on('cancelled', () => ended.abort())
  call.on('error', (error) => {
    log.debug({ err: error }, 'stream broke')
    ended.abort()
  })
  metrics.streams.inc()
  try {
    call.sendMetadata(Metadata.fromHttp2Headers(answerHeaders(handler.shared)))
    const { discoveryDetails: details, discoveryProperties } = call.request
    const properties = propertiesFromWire(discoveryProperties)
    const takesReports = sendsReports(call.metadata)
    const request = { details, properties, signal: ended.signal, log }
    let sentDevices: unknown
    let sentReports = ''
    for await (const list of followDiscovery(handler, request)) {
      if (ended.signal.aborted) break
      const { devices, leftOut, problems } = list
      metrics.devices.set(devices.length)
      metrics.leftOut.set(countOf(leftOut))
      metrics.problems.set(countOf(problems))
      const reports = takesReports ? [...deviceReports(list)] : []
      const reportsText = JSON.stringify(reports)
      if (devices === sentDevices && reportsText === sentReports) continue
      ;[sentDevices, sentReports] = [devices, reportsText]
      const response = {
        devices,
        reports: reports.map((report) => ({ ...report, ids: [...report.ids] })),
      }
      // The back-pressure of `write` alone would queue 16 lists, and only the last of them would be
      // current.
      const sent = new Promise((resolve) => call.write(response, resolve))
      await untilAborted(sent, ended.signal)
      metrics.lists.inc()
    }
    if (closing.aborted)
      call.emit('error', {
        code: status.UNAVAILABLE,
        details: `handler ${handler.name} is shutting down`,
      })
    else call.end()
  } catch (error) {
    metrics.errors.inc()
    log.warn({ err: error }, 'discovery failed')
    call.emit('error', { code: statusOf(error), details: messageOf(error) })
  } finally {
    ended.abort()
    metrics.streams.dec()
  }
}

/** The gRPC status for a failure; the agent reads the kind of the failure from it. */
function statusOf(error: unknown): status {
  if (!AkriError.is(error)) return status.UNKNOWN
  if (error.code === 'AKRI_ERR_INVALID_DEVICE_LIST') return status.INTERNAL
  // A handler can also throw this error during a discovery.
  if (error.code === 'AKRI_ERR_INVALID_DETAILS') return status.INVALID_ARGUMENT
  return status.UNKNOWN
}
