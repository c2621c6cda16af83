import { CONFIGURATIONS, GROUP, INSTANCES, type Problem } from '@akrijs/api'
import { type ApiClient, ApiUnreachableError, Resource, type ResourceKind } from '@akrijs/kube'
import { at } from '../json.js'

/** How long the API server may take, in milliseconds: it waits for us in the meantime. */
const PATIENCE_MS = 2000
/** Of an Instance: what stands before the digest of its device is the name of its Configuration. */
const INSTANCE_NAME = /-[0-9a-f]{6}$/

/** Who has the resource `akri.sh/<name>`, which is one for the whole cluster. */
export interface NamesInUse {
  /** @returns what is wrong with a new Configuration of that name. @throws where nobody can tell */
  problems(namespace: string, name: string): Promise<Problem[]>
}

/** Asks the API server. */
export class ClusterNamesInUse implements NamesInUse {
  readonly #client: ApiClient

  constructor(client: ApiClient) {
    this.#client = client
  }

  async problems(namespace: string, name: string): Promise<Problem[]> {
    const resource = `${GROUP}/${name}`
    const refuse = (who: string) => [
      {
        path: 'metadata.name',
        message: `its resource ${resource} is that of ${who} already; write another name; it is ${JSON.stringify(name)}`,
      },
    ]
    const other = (await this.#named(CONFIGURATIONS, name)).find((one) => one !== namespace)
    if (other !== undefined) return refuse(`the Configuration ${other}/${name}`)
    const instance = INSTANCE_NAME.test(name) ? (await this.#named(INSTANCES, name))[0] : undefined
    return instance === undefined ? [] : refuse(`the Instance ${instance}/${name}`)
  }

  /** The namespaces in which there is an object of that name. */
  async #named(kind: ResourceKind, name: string): Promise<string[]> {
    const list = await this.#client.request({
      method: 'GET',
      path: new Resource(this.#client, kind).path(),
      query: { fieldSelector: `metadata.name=${name}` },
      timeoutMs: PATIENCE_MS,
    })
    const items = at(list, 'items')
    if (!Array.isArray(items))
      throw new ApiUnreachableError(`list ${kind.plural}: the answer is no list`)
    return items.map((item) => String(at(item, 'metadata', 'namespace')))
  }
}
