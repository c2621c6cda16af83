// The agent of one machine without a cluster.
export type { BrokerState } from './brokers/broker-context.js'
export { BrokerLedger } from './brokers/broker-ledger.js'
export { BrokerSet } from './brokers/broker-set.js'
export { FinishedJobs } from './brokers/finished-jobs.js'
export type { RecordedEvent } from './cluster/event-log.js'
export { StandaloneCluster } from './cluster/standalone-cluster.js'
export { StateFileError } from './errors.js'
export { manifestFilesIn } from './manifests/manifest-files.js'
export {
  type StandaloneAgent,
  type StandaloneOptions,
  startStandalone,
} from './standalone.js'
export { makeStateDirectory } from './state/state-directory.js'
export { StateFile } from './state/state-file.js'
