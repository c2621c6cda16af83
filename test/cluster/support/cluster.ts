import { randomBytes } from 'node:crypto'
import { CONFIGURATIONS, INSTANCES } from '@akrijs/api'
import { type ApiClient, ApiError, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { beforeAll, describe, expect } from 'vitest'
import { eventually } from '../../support/eventually.js'
import { clientOfCluster, missingSettings } from './client.js'
import { applyCustomResources } from './custom-resources.js'

const NAMESPACES = { group: '', version: 'v1', plural: 'namespaces' }

/** Tests that need an API server. The custom resources are installed before the first test. */
export function describeOnCluster(title: string, tests: () => void): void {
  const missing = missingSettings.join('; ')
  const needs = missing === '' ? '' : ` (needs a Kubernetes: ${missing})`
  describe.skipIf(missing !== '')(title + needs, () => {
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
    return new OwnNamespace(client, await makeNamespace(client))
  }

  key(name: string): ObjectKey {
    return objectKey(this.name, name)
  }

  async remove(): Promise<void> {
    await removeNamespace(this.client, this.name)
    this.client.close()
  }
}

/** Creates a namespace for a single suite. */
export async function makeNamespace(client: ApiClient): Promise<string> {
  const name = `akri-test-${randomBytes(5).toString('hex')}`
  const object = {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { 'akri.sh/test': 'true' } },
  }
  await new Resource(client, NAMESPACES).create('', object)
  return name
}

/**
 * Removes a namespace. The server does so in the background, for seconds: the custom resources are
 * removed before, or else the controller of the next test writes their statuses meanwhile.
 */
export async function removeNamespace(client: ApiClient, name: string): Promise<void> {
  for (const kind of [CONFIGURATIONS, INSTANCES]) {
    const path = new Resource(client, kind).path(name)
    await client.request({ method: 'DELETE', path })
    await eventually(async () =>
      expect(await client.request({ method: 'GET', path })).toMatchObject({ items: [] }),
    )
  }
  await new Resource(client, NAMESPACES).delete(objectKey('', name))
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
