import { BUNDLED_TYPES, type KubernetesTypes } from '@akrijs/api'
import { type ApiClient, ApiError } from '@akrijs/kube'
import { Backoff, type Clock, type Logger, valueAt } from '@akrijs/runtime'
import { SchemaUnusableError } from '../errors.js'
import { schemasIn, typesOf } from './openapi.js'

/**
 * The interval between two reads of the cluster's version, in milliseconds. The types change only
 * with the version.
 */
const VERSION_MS = 5 * 60_000
/** The time limit of a document, in milliseconds: a document has megabytes. */
const DOCUMENT_MS = 30_000
const RETRY = { initialMs: 2000, ceilingMs: VERSION_MS }

/** The groups of OpenAPI 3 that have the types of specs in Configurations. */
const GROUPS = ['api/v1', 'apis/batch/v1', 'apis/apps/v1']

interface ClusterTypesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
}

/** The types of the cluster; the bundled types until the API server has described its types. */
export class ClusterTypes {
  /** Resolves after the first attempt, also after a failure. */
  readonly attempted: Promise<void>
  readonly #options: ClusterTypesOptions
  #types: KubernetesTypes | undefined
  #onAttempted: () => void = () => {}

  constructor(options: ClusterTypesOptions) {
    this.#options = options
    this.attempted = new Promise((resolve) => {
      this.#onAttempted = resolve
    })
  }

  get current(): KubernetesTypes {
    return this.#types ?? BUNDLED_TYPES
  }

  get source(): 'cluster' | 'bundled' {
    return this.#types === undefined ? 'bundled' : 'cluster'
  }

  /** Follows the version of the cluster until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, clock, log } = this.#options
    const retries = new Backoff(RETRY)
    while (!signal.aborted) {
      let waitMs = VERSION_MS
      try {
        const version = await versionOf(client, signal)
        if (version !== this.#types?.version) {
          this.#types = await readTypes(client, version, signal)
          log.info({ version, types: Object.keys(this.#types.types).length }, 'cluster types read')
        }
        retries.reset()
      } catch (error) {
        if (signal.aborted) return
        waitMs = retries.next()
        const used = this.current.version
        log.warn({ err: error, retryInMs: waitMs, used }, 'read of cluster types failed')
      } finally {
        this.#onAttempted()
      }
      await clock.sleep(waitMs, signal).catch(() => undefined)
    }
  }
}

async function versionOf(client: ApiClient, signal: AbortSignal): Promise<string> {
  const version = valueAt(
    await client.request({ method: 'GET', path: '/version', signal }),
    'gitVersion',
  )
  if (typeof version !== 'string')
    throw new SchemaUnusableError('GET /version: the answer names no version')
  return version
}

/** Reads OpenAPI 3 by groups (since Kubernetes 1.24), or else OpenAPI 2, which is one document. */
async function readTypes(
  client: ApiClient,
  version: string,
  signal: AbortSignal,
): Promise<KubernetesTypes> {
  const get = (path: string) =>
    client.request({ method: 'GET', path, timeoutMs: DOCUMENT_MS, signal })
  const types =
    (await typesOfGroups(get, version)) ?? typesOf(schemasIn(await get('/openapi/v2')), version)
  if (types === undefined)
    throw new SchemaUnusableError(
      'GET /openapi/v2: the answer lacks types that every Kubernetes has',
    )
  return types
}

async function typesOfGroups(
  get: (path: string) => Promise<unknown>,
  version: string,
): Promise<KubernetesTypes | undefined> {
  let index: unknown
  try {
    index = await get('/openapi/v3')
  } catch (error) {
    if (ApiError.is(error, 404)) return undefined
    throw error
  }
  const schemas = new Map<string, Record<string, unknown>>()
  for (const group of GROUPS) {
    const path = valueAt(index, 'paths', group, 'serverRelativeURL')
    if (typeof path !== 'string' || !path.startsWith('/openapi/v3/')) return undefined
    for (const [name, schema] of schemasIn(await get(path))) schemas.set(name, schema)
  }
  return typesOf(schemas, version)
}
