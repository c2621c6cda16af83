import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import {
  type DevicePluginOptions,
  type DevicePluginServer,
  DevicePluginService,
} from '@akrijs/proto/device-plugin'
import {
  AkriError,
  type Clock,
  type Logger,
  MAX_SOCKET_PATH,
  messageOf,
  NO_CHANNELZ,
  objectMessage,
  runAfter,
} from '@akrijs/runtime'
import { type handleUnaryCall, Server, ServerCredentials, status } from '@grpc/grpc-js'
import { AllocationRefusedError, KubeletUnavailableError } from '../errors.js'
import { PLUGIN_CALLS } from '../limits.js'

/** The calls that the kubelet should make: part of the registration and of the service. */
export const PLUGIN_OPTIONS: DevicePluginOptions = {
  preStartRequired: false,
  getPreferredAllocationAvailable: true,
}

/** Distinguishes the agent's sockets from sockets of other device plugins. */
const PREFIX = 'akri-'

/** The longest wait for the kubelet to read the end of a plugin, in milliseconds. */
const LAST_LIST_MS = 1000

/** A gRPC server of one device plugin (kubelet API v1beta1), on a unix socket. */
export type PluginServer = Awaited<ReturnType<typeof openPluginServer>>

/** Serves on a new socket. @throws KubeletUnavailableError */
export async function openPluginServer(
  directory: string,
  resourceName: string,
  service: DevicePluginServer,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
) {
  const server = new Server({ ...NO_CHANNELZ, ...PLUGIN_CALLS })
  server.addService(DevicePluginService, service)
  const connections = new Set<net.Socket>()
  // `bindAsync` prints a failure to the standard error, and wraps it in a text of its own.
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const listener = net.createServer((connection) => {
    connections.add(connection)
    connection.once('close', () => connections.delete(connection))
    injector.injectConnection(connection)
  })
  const socket = pluginSocket(directory, resourceName)
  try {
    await once(listener.listen(socket), 'listening')
  } catch (error) {
    const message = `cannot listen on ${socket}: ${messageOf(error)}`
    throw new KubeletUnavailableError(message, { cause: error })
  }
  return {
    socket,
    /**
     * Removes the socket. Resolves when the kubelet has read the streams, and has disconnected. A
     * kubelet that does not read must not delay the other plugins for long.
     */
    async close(): Promise<void> {
      const limit = new AbortController()
      // `forceShutdown` would wait for a kubelet that does not read.
      runAfter(clock, LAST_LIST_MS, limit.signal, () => {
        for (const connection of connections) connection.destroy()
      })
      const closed = once(listener, 'close')
      listener.close()
      server.tryShutdown(() => undefined)
      await closed
      limit.abort()
      await rm(socket, { force: true }).catch((error: unknown) =>
        log.warn({ err: error }, 'socket of the device plugin not removed'),
      )
    },
  }
}

/** @returns a unique path that fits into a socket address: a long name is cut */
export function pluginSocket(directory: string, resourceName: string): string {
  const end = `-${randomBytes(4).toString('hex')}.sock`
  const room = MAX_SOCKET_PATH - Buffer.byteLength(path.join(directory, PREFIX + end))
  const name = path.basename(resourceName).slice(0, Math.max(0, room))
  return path.join(directory, PREFIX + name + end)
}

/** Whether a file in the kubelet's directory is a socket of this agent or of an earlier agent. */
export function isPluginSocket(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith('.sock')
}

/** The kubelet stores the text of a failure in the status of the Pod. */
export function unary<Request, Response>(
  work: (request: Request) => Promise<Response>,
): handleUnaryCall<Request, Response> {
  return ({ request }, answer) => {
    work(request).then(
      (response) => answer(null, response),
      (error: unknown) => answer({ code: codeOf(error), details: objectMessage(messageOf(error)) }),
    )
  }
}

function codeOf(error: unknown): status {
  if (AllocationRefusedError.is(error)) return status.FAILED_PRECONDITION
  return AkriError.is(error) ? status.UNAVAILABLE : status.INTERNAL
}
