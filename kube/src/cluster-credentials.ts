/** The address of an API server, and the credentials for it. */
export interface ClusterAccess {
  readonly server: URL
  /** The namespace of the context, or of the Pod. @default none is named */
  readonly namespace?: string | undefined
  /** Reads the current credentials: files of a Pod are renewed while the Pod runs. */
  credentials(): Promise<Credentials>
}

export interface Credentials {
  /**
   * The authorities that may sign the certificate of the server, PEM.
   * @default the authorities of Node.js
   */
  readonly ca?: string | undefined
  /** The client certificate and its key, PEM. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** The bearer token. */
  readonly token?: string | undefined
  /** Whether the certificate of the server is verified. @default true */
  readonly verify?: boolean | undefined
  /** The name that the certificate of the server must have. @default the host of `server` */
  readonly serverName?: string | undefined
}
