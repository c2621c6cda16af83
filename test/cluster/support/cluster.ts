import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { type ApiClient, ApiError, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { load } from 'js-yaml'
import { beforeAll, describe, expect, vi } from 'vitest'
import { clientOfCluster } from './client.js'

const CRD_DIRECTORY = new URL('../../../api/crds/', import.meta.url)
const CRDS = { group: 'apiextensions.k8s.io', version: 'v1', plural: 'customresourcedefinitions' }
const NAMESPACES = { group: '', version: 'v1', plural: 'namespaces' }

const { KUBECONFIG, AKRI_TEST_CLUSTER } = process.env

/**
 * Settings that are missing for tests that write to a cluster. The KUBECONFIG of a developer may
 * name a cluster in use.
 */
const missing = [
  ...(KUBECONFIG ? [] : ['set KUBECONFIG']),
  ...(AKRI_TEST_CLUSTER === '1' ? [] : ['set AKRI_TEST_CLUSTER=1 to allow tests to write to it']),
]

/** Tests that need an API server. The custom resources are installed before the first test. */
export function describeOnCluster(title: string, tests: () => void): void {
  const needs = missing.length === 0 ? '' : ` (needs a Kubernetes: ${missing.join('; ')})`
  describe.skipIf(missing.length > 0)(title + needs, () => {
    beforeAll(async () => {
      const client = await clientOfCluster()
      await applyCrds(client)
      client.close()
    })
    tests()
  })
}

/** Installs the custom resources of this version, and waits until the server serves them. */
async function applyCrds(client: ApiClient): Promise<void> {
  const api = new Resource(client, CRDS)
  for (const file of (await readdir(CRD_DIRECTORY)).filter((name) => name.endsWith('.yaml'))) {
    const crd = load(await readFile(new URL(file, CRD_DIRECTORY), 'utf8')) as {
      metadata: { name: string }
    }
    const key = objectKey('', crd.metadata.name)
    await api.apply(key, crd, 'akri-tests')
    await vi.waitFor(
      async () =>
        expect(await api.get(key)).toMatchObject({
          status: {
            conditions: expect.arrayContaining([
              expect.objectContaining({ type: 'Established', status: 'True' }),
            ]),
          },
        }),
      { timeout: 45_000, interval: 100 },
    )
  }
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
