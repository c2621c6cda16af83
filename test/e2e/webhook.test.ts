import type { X509Certificate } from 'node:crypto'
import tls from 'node:tls'
import { objectKey, Resource } from '@akrijs/kube'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { BUNDLED_TYPES } from '../../api/src/generated/bundled-types.js'
import { schemasIn, typesOf } from '../../webhook/src/schema/openapi.js'
import { refusal } from '../cluster/support/cluster.js'
import { describeUnless } from '../support/unless.js'
import { HOST, missingHost } from './support/nodes.js'
import { eventually, World } from './support/world.js'
import { HostWebhook } from './webhook/host-webhook.js'

// Two replicas of the webhook as processes of this machine. Both are registered, so the API server
// asks both about every Configuration.

const REGISTRATIONS = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
}
const LABEL = 'akri-webhook-test'
const SECRET = 'webhook-certificates'

interface Registration {
  readonly webhooks: readonly {
    readonly failurePolicy: string
    readonly clientConfig: { readonly caBundle?: string }
  }[]
}

describeUnless(missingHost(), 'the webhook', () => {
  let world: World
  let replicas: readonly [HostWebhook, HostWebhook]
  let registrations: Resource
  let registrationName: string
  let count = 0
  /** The certificate that replicas serve until API servers have the second authority. */
  let first: X509Certificate

  const registration = async () =>
    (await registrations.get(objectKey('', registrationName))) as Registration

  const configuration = (spec: object) => ({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: `lab-${count++}`, namespace: world.namespace },
    spec: {
      discoveryHandler: { name: 'debugEcho', discoveryDetails: 'descriptions: [foo0]' },
      ...spec,
    },
  })
  const create = (object: object) => world.api('Configuration').create(world.namespace, object)
  /** The certificate that a replica serves at present. */
  const served = (replica: HostWebhook) =>
    new Promise<X509Certificate>((resolve, reject) => {
      const socket = tls.connect(
        { host: HOST, port: replica.port, rejectUnauthorized: false },
        () => {
          const certificate = socket.getPeerX509Certificate()
          socket.destroy()
          if (certificate === undefined) reject(new Error('no certificate'))
          else resolve(certificate)
        },
      )
      socket.on('error', reject)
    })

  /** The number of authorities in the registration. */
  const authorities = async () => {
    const { webhooks } = await registration()
    const bundle = Buffer.from(webhooks[0]?.clientConfig.caBundle ?? '', 'base64')
    return bundle.toString().match(/BEGIN/g)?.length
  }

  beforeAll(async () => {
    world = await World.open()
    // The webhook creates no Secret: it fills an empty one.
    await world.api('Secret').create(world.namespace, { metadata: { name: SECRET } })
    registrations = new Resource(world.client, REGISTRATIONS)
    registrationName = `akri-test-${world.namespace}`
    await world.client.request({
      method: 'PATCH',
      path: `/api/v1/namespaces/${world.namespace}`,
      body: { metadata: { labels: { [LABEL]: 'yes' } } },
      patch: 'merge',
    })
    const env = {
      POD_NAMESPACE: world.namespace,
      AKRI_CERTIFICATE_SECRET: SECRET,
      AKRI_WEBHOOK_CONFIGURATION: registrationName,
    }
    replicas = [await HostWebhook.create(env), await HostWebhook.create(env)]
    await registrations.create('', {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name: registrationName },
      webhooks: replicas.map(({ url }, index) => ({
        name: `replica-${index}.akri.sh`,
        clientConfig: { url },
        rules: [
          {
            apiGroups: ['akri.sh'],
            apiVersions: ['v0'],
            operations: ['CREATE', 'UPDATE'],
            resources: ['configurations'],
          },
        ],
        namespaceSelector: { matchLabels: { [LABEL]: 'yes' } },
        admissionReviewVersions: ['v1', 'v1beta1'],
        sideEffects: 'None',
        timeoutSeconds: 5,
      })),
    })
    await Promise.all(replicas.map((replica) => replica.start()))
    await eventually(async () => {
      const { webhooks } = await registration()
      expect(webhooks.every(({ clientConfig }) => clientConfig.caBundle !== undefined)).toBe(true)
    })
    // API servers see the change a moment later.
    await eventually(() => create(configuration({})))
  })

  afterAll(async () => {
    await registrations?.delete(objectKey('', registrationName))
    await Promise.all((replicas ?? []).map((replica) => replica.stop()))
    await world?.close()
  })

  it('issues certificates that both replicas serve, and repairs its registration', async () => {
    const [one, two] = await Promise.all(replicas.map(served))
    expect(one?.fingerprint256).toBe(two?.fingerprint256)
    await registrations.patch(objectKey('', registrationName), 'json', [
      { op: 'replace', path: '/webhooks/0/clientConfig/caBundle', value: '' },
      { op: 'replace', path: '/webhooks/1/failurePolicy', value: 'Ignore' },
    ])
    await eventually(async () => {
      const { webhooks } = await registration()
      expect(webhooks[0]?.clientConfig.caBundle).toBe(webhooks[1]?.clientConfig.caBundle)
      expect(webhooks.map(({ failurePolicy }) => failurePolicy)).toEqual(['Fail', 'Fail'])
    })
    await eventually(() => create(configuration({})))
  })

  it('announces another authority, and serves its certificates for some time', async () => {
    first = await served(replicas[0])
    await world.api('Secret').patch(world.key(SECRET), 'json', [{ op: 'remove', path: '/data' }])
    await eventually(async () => expect(await authorities()).toBe(2))
    await create(configuration({}))
  })

  it('knows the fields of this cluster', async () => {
    const { gitVersion } = (await world.client.request({ method: 'GET', path: '/version' })) as {
      gitVersion: string
    }
    for (const replica of replicas)
      expect(await replica.metrics()).toContain(
        `akri_webhook_types_info{source="cluster",version="${gitVersion}"} 1`,
      )
    const { status, reason, message } = await refusal(
      create(
        configuration({
          brokerSpec: {
            brokerPodSpec: { containers: [{ name: 'b', image: 'i' }], xUnknownSyntheticField: 1 },
          },
        }),
      ),
    )
    expect([status, reason]).toEqual([422, 'Invalid'])
    expect(message).toContain(
      'denied the request: spec.brokerSpec.brokerPodSpec.xUnknownSyntheticField: ' +
        `there is no such field in Kubernetes ${gitVersion}`,
    )
  })

  it('has bundled fields of the same types as this cluster', async () => {
    const types =
      typesOf(schemasIn(await world.client.request({ method: 'GET', path: '/openapi/v2' })), '')
        ?.types ?? {}
    const shape = (text: string) =>
      text.replace('!', '').replace(/(io\.k8s\.|(Core)?V\d).*$/, 'object')
    let compared = 0
    for (const [name, fields] of Object.entries(types)) {
      const bundled = BUNDLED_TYPES.types[`V1${name.slice(name.lastIndexOf('.') + 1)}`] ?? {}
      for (const [field, text] of Object.entries(fields)) {
        const ours = bundled[field]
        if (ours === undefined) continue
        compared++
        expect(`${name}.${field}: ${shape(ours)}`).toBe(`${name}.${field}: ${shape(text)}`)
      }
    }
    expect(compared).toBeGreaterThan(400)
  })

  it('changes to other certificates under a steady load of Configurations', async () => {
    let asked = 0
    let ends = false
    const asking = (async () => {
      const path = `${world.api('Configuration').path(world.namespace)}?dryRun=All`
      while (!ends) {
        await world.client.request({ method: 'POST', path, body: configuration({}) })
        asked++
      }
    })()
    const failed = asking.catch((error: unknown) => error)
    await eventually(async () => {
      const now = await Promise.all(replicas.map(served))
      expect(now[0]?.fingerprint256).toBe(now[1]?.fingerprint256)
      expect(now[0]?.fingerprint256).not.toBe(first.fingerprint256)
    })
    expect(await authorities()).toBe(2)
    const more = asked + 20
    await eventually(() => expect(asked).toBeGreaterThan(more))
    ends = true
    expect(await failed).toBeUndefined()
    // Each replica noticed the expiry by itself, and one of them wrote the new certificate.
    expect(
      replicas
        .map(({ output }) => output)
        .join('')
        .match(/certificates renewed/g)?.length,
    ).toBeLessThanOrEqual(4)
  })
})
