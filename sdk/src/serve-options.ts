import type { Logger } from '@akrijs/runtime'

export interface ServeOptions {
  /** Where the agent's `agent-registration.sock` is and the handlers' sockets go. @default DISCOVERY_HANDLERS_DIRECTORY */
  readonly directory?: string
  /** The address to serve on instead of a unix socket. @default POD_IP, else a unix socket */
  readonly podIp?: string
  /** The port on `podIp` of the first handler; each further handler takes the next one. @default 10000 */
  readonly port?: number
  /** Where to serve `/healthz`, `/readyz` and `/metrics`. @default METRICS_PORT, else nowhere */
  readonly metricsPort?: number
  /** @default JSON lines to standard error, from the level in LOG_LEVEL (info) */
  readonly log?: Logger
  /** Closes the server when it is aborted. */
  readonly signal?: AbortSignal
  /** @default process.env */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

export interface HandlerServer {
  /** Where agents find each handler: the path of a socket, or `http://address:port`. */
  readonly endpoints: ReadonlyMap<string, string>
  /** The port of health and metrics, where they are served. */
  readonly metricsPort: number | undefined
  /** Ends all streams, leaves the agent, removes the sockets. */
  close(): Promise<void>
  /** Resolves when the server has closed, by `close` or by the signal. */
  readonly closed: Promise<void>
}
