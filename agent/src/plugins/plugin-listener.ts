import { once } from 'node:events'
import net from 'node:net'
import { DevicePluginService } from '@akrijs/proto/device-plugin'
import { NO_CHANNELZ } from '@akrijs/runtime'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { PLUGIN_CALLS } from '../limits.js'
import { type PluginCalls, pluginService } from './plugin-service.js'

/** The gRPC server of one device plugin, on a unix socket. */
export class PluginListener {
  readonly socket: string
  readonly #server = new Server({ ...NO_CHANNELZ, ...PLUGIN_CALLS })
  readonly #listener: net.Server
  readonly #connections = new Set<net.Socket>()

  private constructor(socket: string, calls: PluginCalls) {
    this.socket = socket
    this.#server.addService(DevicePluginService, pluginService(calls))
    // `bindAsync` prints a failure to the standard error, and wraps it in a text of its own.
    const injector = this.#server.createConnectionInjector(ServerCredentials.createInsecure())
    this.#listener = net.createServer((connection) => {
      this.#connections.add(connection)
      connection.once('close', () => this.#connections.delete(connection))
      injector.injectConnection(connection)
    })
  }

  static async listen(socket: string, calls: PluginCalls): Promise<PluginListener> {
    const opened = new PluginListener(socket, calls)
    opened.#listener.listen(socket)
    await once(opened.#listener, 'listening')
    return opened
  }

  /** Removes the socket. Resolves when the kubelet has read the streams, and has disconnected. */
  async close(): Promise<void> {
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    this.#server.tryShutdown(() => undefined)
    await closed
  }

  /** Ends all connections. `forceShutdown` would wait for a kubelet that does not read. */
  destroy(): void {
    for (const connection of this.#connections) connection.destroy()
  }
}
