import { randomBytes } from 'node:crypto'
import { CONFIGURATIONS, INSTANCES } from '@akrijs/api'
import { type ApiClient, ApiError, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { beforeAll, expect } from 'vitest'
import { eventually } from '../../support/eventually.js'
import { describeUnless } from '../../support/unless.js'
import { clientOfCluster, missingSettings } from './client.js'
import { applyCustomResources } from './custom-resources.js'

const NAMESPACES = { group: '', version: 'v1', plural: 'namespaces' }

/** Tests that need an API server. The custom resources are installed before the first test. */
export function describeOnCluster(title: string, tests: () => void): void {
  const missing =
    missingSettings.length === 0 ? [] : [`a Kubernetes: ${missingSettings.join('; ')}`]
  describeUnless(missing, title, () => {
    beforeAll(async () => {
      const client = await clientOfCluster()
      await applyCustomResources(client)
      client.close()
    })
    tests()
  })
}

/** A namespace for the tests of a suite, and a client. */
export class OwnNamespace {
  readonly client: ApiClient
  readonly name: string

  private constructor(client: ApiClient, name: string) {
    this.client = client
    this.name = name
  }

  static async make(): Promise<OwnNamespace> {
    const client = await clientOfCluster()
    const name = `akri-test-${randomBytes(5).toString('hex')}`
    const metadata = { name, labels: { 'akri.sh/test': 'true' } }
    const object = { apiVersion: 'v1', kind: 'Namespace', metadata }
    await new Resource(client, NAMESPACES).create('', object)
    return new OwnNamespace(client, name)
  }

  key(name: string): ObjectKey {
    return objectKey(this.name, name)
  }

  /**
   * The server removes a namespace in the background, for seconds: the custom resources are removed
   * before, or else the controller of the next test writes their statuses meanwhile.
   */
  async remove(): Promise<void> {
    for (const kind of [CONFIGURATIONS, INSTANCES]) {
      const path = new Resource(this.client, kind).path(this.name)
      await this.client.request({ method: 'DELETE', path })
      await eventually(async () =>
        expect(await this.client.request({ method: 'GET', path })).toMatchObject({ items: [] }),
      )
    }
    await new Resource(this.client, NAMESPACES).delete(objectKey('', this.name))
    this.client.close()
  }
}

let names = 0

/** A name that is unique in a file of tests. */
export const uniqueName = () => `thing-${names++}`

/** The refusal that the work rejects with. */
export async function refusal(work: Promise<unknown>): Promise<ApiError> {
  try {
    await work
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  return expect.fail('it was not refused')
}
