import { defineError } from '@akrijs/runtime'

/** No agent answers for the state directory. */
export class NoAgentError extends defineError('AKRI_ERR_NO_AGENT', 'terminal') {}

/** The agent has no object of this name. */
export class NoSuchObjectError extends defineError('AKRI_ERR_NO_SUCH_OBJECT', 'terminal') {}

/** The cluster has no custom resources of akri.js. */
export class NotInstalledError extends defineError('AKRI_ERR_NOT_INSTALLED', 'terminal') {}

/** `akri doctor` found a problem. Standard output has each, with what to do. */
export class ClusterProblemsError extends defineError('AKRI_ERR_CLUSTER_PROBLEMS', 'terminal') {}

/** The handler of `akri discover` has given no list within the limit. */
export class NoListError extends defineError('AKRI_ERR_NO_LIST', 'terminal') {}

/** `akri validate` found a problem. Standard output has the place and the reason of each. */
export class InvalidManifestError extends defineError('AKRI_ERR_INVALID_MANIFEST', 'terminal') {}

/** Something stands in the way of `akri migrate`, which has written nothing. */
export class MigrationBlockedError extends defineError('AKRI_ERR_MIGRATION_BLOCKED', 'terminal') {}

/** `akri migrate` has written some objects only: others changed meanwhile, or were refused. */
export class MigrationIncompleteError extends defineError(
  'AKRI_ERR_MIGRATION_INCOMPLETE',
  'transient',
) {}
