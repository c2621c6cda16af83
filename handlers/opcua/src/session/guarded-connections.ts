import diagnostics from 'node:diagnostics_channel'
import net from 'node:net'
import { readEndpointUrl } from '../endpoint-url.js'
import { OpcuaProtocolError } from '../errors.js'

/** A channel of Node.js, which gets each new socket of a client. */
const CREATED = 'net.client.socket'
/** The limit of all messages of a session, in bytes. */
const MAX_BYTES = 4 * 1024 * 1024

/**
 * Guards the connections to a server that begin before the guard is disposed. node-opcua decodes
 * messages in the events of a socket: an exception there would end the process. It also takes the
 * limits of messages from the server, so that a server could fill the memory.
 * @param url with an address
 * @param onFailure gets the exception after which a connection is closed
 */
export function guardConnections(url: string, onFailure: (error: unknown) => void): Disposable {
  const to = readEndpointUrl(url)
  const onCreated = (message: unknown) => {
    if (!(isObject(message) && message.socket instanceof net.Socket)) return
    const { socket } = message
    socket.once('connect', () => {
      if (socket.remoteAddress === to?.host && socket.remotePort === to?.port)
        guard(socket, onFailure)
    })
  }
  diagnostics.subscribe(CREATED, onCreated)
  return { [Symbol.dispose]: () => void diagnostics.unsubscribe(CREATED, onCreated) }
}

function guard(socket: net.Socket, onFailure: (error: unknown) => void): void {
  const emit = socket.emit.bind(socket)
  socket.emit = (event: string | symbol, ...values: unknown[]) => {
    try {
      if (event === 'data' && socket.bytesRead > MAX_BYTES)
        throw new OpcuaProtocolError(
          'message-too-large',
          `the server sent more than ${MAX_BYTES} bytes in a session`,
        )
      return emit(event, ...values)
    } catch (error) {
      onFailure(error)
      socket.destroy()
      return true
    }
  }
}

function isObject(value: unknown): value is { readonly socket?: unknown } {
  return typeof value === 'object' && value !== null
}
