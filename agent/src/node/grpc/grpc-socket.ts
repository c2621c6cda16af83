import { once } from 'node:events'
import net from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { GrpcConnection } from './grpc-connection.js'
import type { GrpcService } from './grpc-service.js'

/** A gRPC service on a unix socket. */
export class GrpcSocket {
  readonly #server: net.Server
  readonly #connections = new Set<GrpcConnection>()

  private constructor(service: GrpcService) {
    this.#server = net.createServer((socket) => {
      const connection = new GrpcConnection(socket, service)
      this.#connections.add(connection)
      socket.on('close', () => this.#connections.delete(connection))
    })
  }

  static async listen(path: string, service: GrpcService): Promise<GrpcSocket> {
    const socket = new GrpcSocket(service)
    socket.#server.listen(path)
    await once(socket.#server, 'listening')
    return socket
  }

  /** Ends all connections, and removes the socket. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const connection of this.#connections) connection.goAway()
    // What was written before is with the kernel.
    await setImmediate()
    for (const connection of this.#connections) connection.destroy()
    await closed
  }
}
