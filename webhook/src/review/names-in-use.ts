import { CONFIGURATIONS, GROUP, INSTANCES, type Problem } from '@akrijs/api'
import { type ApiClient, ApiUnreachableError, Resource, type ResourceKind } from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'

/**
 * The time limit of the API server, in milliseconds: the server waits for the review in the
 * meantime.
 */
const ANSWER_LIMIT_MS = 2000
/** The end of the name of an Instance: the digest of its device. */
const INSTANCE_NAME = /-[0-9a-f]{6}$/

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
    const refuse = (owner: string) => [
      {
        path: 'metadata.name',
        message: `its resource ${resource} is that of ${owner} already; write another name; it is ${JSON.stringify(name)}`,
      },
    ]
    const other = (await this.#named(CONFIGURATIONS, name)).find((home) => home !== namespace)
    if (other !== undefined) return refuse(`the Configuration ${other}/${name}`)
    const instance = INSTANCE_NAME.test(name) ? (await this.#named(INSTANCES, name))[0] : undefined
    return instance === undefined ? [] : refuse(`the Instance ${instance}/${name}`)
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
