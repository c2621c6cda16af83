// The limits of the agent, each with its reason. docs/security.md has them in one table.

// The registration of handlers. Any process with the directory of handlers can register.
/** Endpoints of handlers: each costs a stream for each Configuration that names its handler. */
export const MAX_ENDPOINTS = 256
/** Connections to the registration socket: two for each endpoint. */
export const MAX_REGISTRATION_CONNECTIONS = 512
/** Registrations that wait for the Pod with their address: each keeps a call in memory. */
export const MAX_WAITING_REGISTRATIONS = 64
/** The calls of one connection: a registration is one small call. */
export const REGISTRATION_CALLS = {
  'grpc.max_receive_message_length': 64 * 1024,
  'grpc.max_concurrent_streams': 100,
  // In megabytes.
  'grpc-node.max_session_memory': 1,
}

/** How many devices one agent serves. */
export interface DeviceBounds {
  /** Of one Configuration, and of one list of a handler. */
  readonly perConfiguration: number
  /** Of all Configurations together; those of one namespace have half of it. */
  readonly perNode: number
  /**
   * The slots of all these devices: a device has as many as the capacity of its Configuration. The
   * devices of one namespace have half of them.
   */
  readonly slots: number
}

/** `docs/devices.md` has the measurements. Options change these numbers. */
export const DEVICE_BOUNDS: DeviceBounds = {
  // Half of the node: one Configuration leaves room for others.
  perConfiguration: 1000,
  // Each device can be a device plugin. With 2,500 of them a Node was not ready for 16 s.
  perNode: 2000,
  // Each slot is an id that the kubelet writes to its file whenever a list changes.
  slots: 20_000,
}

/** What a handler sends in one message, of at most 4.125 MiB. */
export const DISCOVER_RESPONSE = {
  /** 4 MiB have room for two million, which take seconds to read. */
  devices: 200_000,
  /** Of one device: a Pod's environment and an Instance hold little more. */
  deviceBytes: 256 * 1024,
  /**
   * For each device that a list may have. A usual device has less than twenty. A field without
   * content takes fifty times its bytes after it is decoded.
   */
  fieldsPerDevice: 100,
  /** Of all reports that are decoded: 65,536 texts at most. */
  reportBytes: 128 * 1024,
}

/**
 * Writes of Instances and starts of plugins for one Configuration: two at once for each device that
 * the node may have, one to appear and one to go, then 20 in a second. A list that always changes
 * then takes no more from the API server, whose priority and fairness bounds the sum of all agents.
 */
export const INSTANCE_CHANGES = { perDevice: 2, refillMs: 50 }

/** How many names of resources the agent puts on its Node. */
export interface ResourceNameBounds {
  /**
   * The names of `akri.sh/…` in the status of the Node, with those that nothing offers any more.
   */
  readonly most: number
  /** New names of one Configuration at once, and then in an hour. */
  readonly atOnce: number
  readonly perHour: number
}

/**
 * A Node keeps each name for ever. With 63 characters in each name, kubelets could write no status
 * any more at 9,000 names (1.5 MB); from 4,000 on, the Node had no `managedFields`.
 */
export const RESOURCE_NAME_BOUNDS: ResourceNameBounds = { most: 4000, atOnce: 2000, perHour: 500 }

/** How many Secrets and ConfigMaps are sources of properties. */
export interface SourceBounds {
  readonly perAgent: number
  /** For all Configurations of one namespace, whichever namespaces the objects are in. */
  readonly perNamespace: number
}

/** The agent and the API server keep a connection for each watched object, for each node. */
export const SOURCE_BOUNDS: SourceBounds = { perAgent: 500, perNamespace: 100 }

/** Calls of the kubelet to a device plugin. Only root reaches the socket. */
export const PLUGIN_CALLS = {
  // A request names the ids of a resource: 100 bytes of each of 20,000 slots are 2 MB.
  'grpc.max_receive_message_length': 4 * 1024 * 1024,
  // The kubelet has one stream of lists, and calls for one Pod at a time.
  'grpc.max_concurrent_streams': 100,
}

/** The most of the report of a node, of the 1.5 MB that etcd takes. */
export const REPORT_BOUNDS = {
  /** The bytes of all statuses as JSON. */
  statusBytes: 1_000_000,
  /** The number of memberships, each with at most 300 bytes: the first ones. */
  memberships: 1000,
  /** The bytes of all slots as JSON. */
  slotBytes: 100_000,
  /** The slots of one Instance. */
  slotsOfInstance: 50,
  /** The Pods to end, each with at most 700 bytes. The next ones have room when these are gone. */
  podsToEnd: 100,
}

/** What workloads report by files, and keep on the disk of their node. */
export const BROKER_INFO = {
  /** The files of a workload that are reported: facts about a device, no data of it. */
  files: 32,
  fileBytes: 4096,
  /** Of all files of a workload together. */
  workloadBytes: 16_384,
  /** Far more than what is reported: a workload may keep drafts there. */
  diskBytes: 1_048_576,
  diskFiles: 1000,
  /** Of one Instance: each watcher receives the whole object. */
  instanceEntries: 128,
  instanceBytes: 65_536,
}
