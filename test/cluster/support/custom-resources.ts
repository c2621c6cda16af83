import { readdir, readFile } from 'node:fs/promises'
import { type ApiClient, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { systemClock, valueAt } from '@akrijs/runtime'
import { load } from 'js-yaml'
import { minorVersion } from './client.js'

// Without vitest: benches use this too.

const DIRECTORY = new URL('../../../api/crds/', import.meta.url)
const CRDS = { group: 'apiextensions.k8s.io', version: 'v1', plural: 'customresourcedefinitions' }
const RULES = 'x-kubernetes-validations'
/** The first minor version of Kubernetes that checks rules in CEL. */
const RULES_SINCE = 25
/** How long a server may take until it serves a custom resource, in milliseconds. */
const ESTABLISHED_MS = 45_000

interface CustomResource {
  readonly metadata: { readonly name: string }
}

/** Installs the custom resources of this version, and waits until the server serves them. */
export async function applyCustomResources(client: ApiClient): Promise<void> {
  const api = new Resource(client, CRDS)
  const rules = await checksRules(client)
  for (const crd of await customResources()) {
    const key = objectKey('', crd.metadata.name)
    await api.apply(key, rules ? crd : withoutRules(crd), 'akri-tests')
    await established(api, key)
  }
}

/**
 * Creates Instances without the fields that Akri before 0.13.8 did not write: the API server
 * requires none of them meanwhile.
 */
export async function withoutRequiredFields(
  client: ApiClient,
  create: () => Promise<unknown>,
): Promise<void> {
  const path = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/required'
  const key = objectKey('', 'instances.akri.sh')
  await new Resource(client, CRDS).patch(key, 'json', [{ op: 'remove', path }])
  const end = systemClock.monotonicMs() + ESTABLISHED_MS
  try {
    for (;;) {
      try {
        await create()
        return
      } catch (error) {
        // Until the API server serves the changed schema.
        if (systemClock.monotonicMs() > end) throw error
        await systemClock.sleep(100)
      }
    }
  } finally {
    await applyCustomResources(client)
  }
}

async function customResources(): Promise<CustomResource[]> {
  const files = (await readdir(DIRECTORY)).filter((name) => name.endsWith('.yaml'))
  const texts = files.map((file) => readFile(new URL(file, DIRECTORY), 'utf8'))
  return (await Promise.all(texts)).map((text) => load(text) as CustomResource)
}

async function established(api: Resource, key: ObjectKey): Promise<void> {
  const end = systemClock.monotonicMs() + ESTABLISHED_MS
  while (!isEstablished(await api.get(key))) {
    if (systemClock.monotonicMs() > end) throw new TypeError(`${key} is not established`)
    await systemClock.sleep(100)
  }
}

function isEstablished(crd: unknown): boolean {
  const conditions = valueAt(crd, 'status', 'conditions')
  return (
    Array.isArray(conditions) &&
    conditions.some(
      (each) => valueAt(each, 'type') === 'Established' && valueAt(each, 'status') === 'True',
    )
  )
}

/** Whether the API server checks the rules of custom resources. */
export async function checksRules(client: ApiClient): Promise<boolean> {
  return (await minorVersion(client)) >= RULES_SINCE
}

/** An older server refuses the field in server-side apply. */
function withoutRules(crd: object): object {
  return JSON.parse(
    JSON.stringify(crd, (key, value: unknown) => (key === RULES ? undefined : value)),
  ) as object
}
