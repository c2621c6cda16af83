import { objectKey, Resource, SECRETS } from '@akrijs/kube'
import { expect } from 'vitest'
import { kubectl } from '../support/kubectl.js'
import { eventually, type World } from '../support/world.js'

const REGISTRATIONS = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
}
const NAME = 'akri-webhook-configuration'

/** What a release with a webhook has in the cluster. */
export class ReleasedWebhook {
  readonly #world: World
  readonly #namespace: string

  /** @param namespace of the release */
  constructor(world: World, namespace: string) {
    this.#world = world
    this.#namespace = namespace
  }

  async registration(): Promise<unknown> {
    return new Resource(this.#world.client, REGISTRATIONS).get(objectKey('', NAME))
  }

  /** Its uid and its data: undefined without the Secret. */
  async certificates(): Promise<object | undefined> {
    const key = objectKey(this.#namespace, NAME)
    const secret = (await new Resource(this.#world.client, SECRETS).get(key)) as
      | { metadata: { uid: string }; data: object }
      | undefined
    return secret && { uid: secret.metadata.uid, data: secret.data }
  }

  /** Resolves when the programs run, and have written the registration. */
  async hasPolicy(failurePolicy: string): Promise<void> {
    const options = ['-n', this.#namespace, '--timeout=90s']
    await kubectl('rollout', 'status', `deployment/${NAME}`, ...options)
    await eventually(async () =>
      expect(await this.registration()).toMatchObject({
        webhooks: [{ failurePolicy, rules: [{}], clientConfig: { caBundle: expect.any(String) } }],
      }),
    )
  }

  /** Resolves when the API server asks the webhook. */
  async isAsked(): Promise<void> {
    const brokerPodSpec = { containers: [], nonsense: true }
    const body = {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'wrong' },
      spec: {
        discoveryHandler: { name: 'debugEcho', discoveryDetails: 'descriptions: []' },
        brokerSpec: { brokerPodSpec },
      },
    }
    const path = this.#world.api('Configuration').path(this.#world.namespace)
    const request = { method: 'POST' as const, path, query: { dryRun: 'All' }, body }
    await eventually(() =>
      expect(this.#world.client.request(request)).rejects.toThrow(
        'nonsense: there is no such field',
      ),
    )
  }
}
