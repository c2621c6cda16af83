import type { ReportedDevice } from '@akrijs/sdk'

/** What a server, or a discovery server on its behalf, reports about an application. */
export interface ApplicationIdentity {
  /** Identifies the application: `urn:plc1:vendor:product`. */
  readonly applicationUri: string
  readonly productUri: string
  readonly applicationName: string
}

/** Two applications can have the default URI of one product: then their names tell them apart. */
export function applicationKey({ applicationUri, applicationName }: ApplicationIdentity): string {
  return JSON.stringify([applicationUri, applicationName])
}

/** A server that a discovery method found. All of it came over the network: do not trust it. */
export interface OpcuaServer {
  /** `opc.tcp://host:port/path` as the network reported it: the id of the device. */
  readonly discoveryUrl: string
  /**
   * Missing for a server that was only announced (mDNS, FindServersOnNetwork), or only claimed. The
   * handler offers such a server after the server itself answered with its identity.
   */
  readonly application?: ApplicationIdentity
  /**
   * The applications that may be at this URL. Without `application`, the handler offers the server
   * only if its answer has the identity of one of them.
   */
  readonly claims?: readonly ServerClaim[]
  /** Known addresses of the server, such as those from mDNS. @default the host of the URL */
  readonly addresses?: readonly string[]
  /** Addresses of the discovery server that lists this server; the handler may call there too. */
  readonly listedFrom?: readonly string[]
  /**
   * Whether the server answered at a discovery URL of the details and has the host of that URL,
   * because the host that it reported means nothing here. @default false
   */
  readonly hasHostOfDetails?: boolean
  /** Whether the discovery server stopped listing a server that still answers. @default false */
  readonly isUnlisted?: boolean
  /**
   * The other applications that reports name at this URL: a report can be old or forged. If there
   * are any, the identity that the server itself reports counts. @default none
   */
  readonly rivals?: readonly ApplicationIdentity[]
}

/** An application in the answer of a server, at a URL that the handler has to check. */
export interface ServerClaim {
  /** The URL of the application in the answer, and its name. */
  readonly url: string
  readonly name: string
  /** Missing if any application with a working endpoint is meant. */
  readonly applicationUri?: string
  /** Why the application is not offered if the check fails. */
  readonly reason: string
}

/** A server, and the application that is at its URL. */
export interface IdentifiedServer {
  readonly server: OpcuaServer
  readonly application: ApplicationIdentity
}

export interface ServerList {
  readonly servers: readonly OpcuaServer[]
  /** The answers, or parts of answers, that name no server that the handler can offer. */
  readonly leftOut: readonly ReportedDevice[]
}

/**
 * A discovery method. Each list is complete and replaces the list before it; one comes at least
 * every 10 s.
 */
export type ServerLists = AsyncIterable<ServerList>
