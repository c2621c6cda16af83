import type { Logger } from '@akrijs/runtime'

/** Options of `serve`. */
export interface ServeOptions {
  /**
   * The directory of the agent's `agent-registration.sock` and of the handlers' sockets.
   * @default the variable DISCOVERY_HANDLERS_DIRECTORY
   */
  readonly directory?: string | undefined
  /**
   * The address to serve on instead of a unix socket.
   * @default the variable POD_IP, else a unix socket
   */
  readonly podIp?: string | undefined
  /**
   * The port on `podIp` of the first handler; each further handler takes the next port. 0 is a free
   * port for each.
   * @default 10000
   */
  readonly port?: number
  /**
   * The port of `/healthz`, `/readyz` and `/metrics`. If it is in use, any free port is taken, with
   * a warning in the log.
   * @default the variable METRICS_PORT, else no port
   */
  readonly metricsPort?: number | undefined
  /** @default JSON lines to standard error, from the level in the variable LOG_LEVEL (info) */
  readonly log?: Logger
  /** Closes the server when it is aborted. @default none */
  readonly signal?: AbortSignal
  /** The variables. @default process.env */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

/** The options of {@link ServeOptions} after all checks, with the variables. */
export interface ServingOptions {
  readonly directory: string
  /** The address and the first port, if the handlers are served on the network. */
  readonly network: { readonly host: string; readonly port: number } | undefined
  readonly metricsPort: number | undefined
}

export interface ServedHandlers {
  /** The endpoint of each handler, by name: the path of a socket, or `http://address:port`. */
  readonly endpoints: ReadonlyMap<string, string>
  /** The port of health and metrics, if they are served. */
  readonly metricsPort: number | undefined
}

/** The handlers that `serve` serves. */
export interface HandlerServer extends ServedHandlers {
  /** Ends all streams, closes the connection to the agent, and removes the sockets. */
  close(): Promise<void>
  /** Resolves when the server has closed, by `close` or by the signal. */
  readonly closed: Promise<void>
}
