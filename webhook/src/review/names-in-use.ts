import { CONFIGURATIONS, GROUP, INSTANCES, type Problem, possibleOwner } from '@akrijs/api'
import { type ApiClient, ApiUnreachableError, Resource, type ResourceKind } from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'

/**
 * The time limit of the API server, in milliseconds: the server waits for the review in the
 * meantime.
 */
const ANSWER_LIMIT_MS = 2000

/** Finds the owner of the resource `akri.sh/<name>`, which must be unique in the cluster. */
export interface NamesInUse {
  /**
   * @returns the problems of a new Configuration of this name.
   * @throws if the names cannot be read
   */
  problems(namespace: string, name: string): Promise<Problem[]>
}

/** Reads the names from the API server. */
export class ClusterNamesInUse implements NamesInUse {
  readonly #client: ApiClient

  constructor(client: ApiClient) {
    this.#client = client
  }

  async problems(namespace: string, name: string): Promise<Problem[]> {
    const resource = `${GROUP}/${name}`
    const refuse = (claim: string) => [
      {
        path: 'metadata.name',
        message:
          `its resource ${resource} ${claim}; write another name; it is ` +
          `${JSON.stringify(name)}`,
      },
    ]
    const owner = possibleOwner(name)
    const [namesakes, instances, owners] = await Promise.all([
      this.#named(CONFIGURATIONS, name),
      owner === undefined ? [] : this.#named(INSTANCES, name),
      owner === undefined ? [] : this.#named(CONFIGURATIONS, owner),
    ])
    // Any program can ask for reviews: the answers name no namespace.
    if (namesakes.some((home) => home !== namespace))
      return refuse('is that of a Configuration in another namespace already')
    if (instances.length > 0) return refuse('is that of an Instance already')
    if (owners.length > 0) return refuse(`could be that of an Instance of a Configuration ${owner}`)
    return []
  }

  /** The namespaces that have an object of this name. */
  async #named(kind: ResourceKind, name: string): Promise<string[]> {
    const list = await this.#client.request({
      method: 'GET',
      path: new Resource(this.#client, kind).path(),
      query: { fieldSelector: `metadata.name=${name}` },
      timeoutMs: ANSWER_LIMIT_MS,
    })
    const items = valueAt(list, 'items')
    if (!Array.isArray(items))
      throw new ApiUnreachableError(`list ${kind.plural}: the answer is no list`)
    return items.map((item) => String(valueAt(item, 'metadata', 'namespace')))
  }
}
