/** What a server, or a discovery server on its behalf, says of an application. */
export interface ApplicationIdentity {
  /** Tells the application from all others: `urn:plc1:vendor:product`. */
  readonly applicationUri: string
  readonly productUri: string
  readonly applicationName: string
}

/** A server that a discovery method has found. Nothing in it is to be trusted: it came over the network. */
export interface OpcuaServer {
  /** `opc.tcp://host:port/path` as it was given: the id of the device. */
  readonly discoveryUrl: string
  /**
   * Missing where a server is only announced (mDNS, FindServersOnNetwork), and nobody has said what it is. It is asked itself
   * then, and not offered before it has answered that it is a server.
   */
  readonly application?: ApplicationIdentity
  /** Where it is, if that is known otherwise than from the host name in the URL, as from mDNS. */
  readonly addresses?: readonly string[]
  /** Where the discovery server is that has listed it: there it may be called too, whatever networks this machine is in. */
  readonly listedFrom?: readonly string[]
  /** Whether the discovery server that has listed it does so no more, while it answers itself. @default false */
  readonly isUnlisted?: boolean
}

/** A discovery method. Each list is complete and takes the place of the one before; it comes at least every ten seconds. */
export type ServerLists = AsyncIterable<readonly OpcuaServer[]>
