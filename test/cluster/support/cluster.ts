import { randomBytes } from 'node:crypto'
import { type ApiClient, ApiError, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { beforeAll, describe, expect } from 'vitest'
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

/** Removes a namespace with its objects. The server does so in the background. */
export async function removeNamespace(client: ApiClient, name: string): Promise<void> {
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
