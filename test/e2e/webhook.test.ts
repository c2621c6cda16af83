import { randomBytes, type X509Certificate } from 'node:crypto'
import tls from 'node:tls'
import { ApiError, objectKey, Resource } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BUNDLED_TYPES } from '../../api/src/generated/bundled-types.js'
import { schemasIn, typesOf } from '../../webhook/src/schema/openapi.js'
import { HOST, missingHost, unlessHost } from './support/nodes.js'
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

describe.skipIf(missingHost() !== undefined)(`the webhook${unlessHost}`, () => {
  let world: World
  let other: string
  let replicas: readonly [HostWebhook, HostWebhook]
  let registrations: Resource
  let registrationName: string
  let count = 0
  /** The certificate that replicas serve until API servers have the second authority. */
  let first: X509Certificate

  const labelled = (namespace: string, value: string | null) =>
    world.client.request({
      method: 'PATCH',
      path: `/api/v1/namespaces/${namespace}`,
      body: { metadata: { labels: { [LABEL]: value } } },
      patch: 'merge',
    })
  const registration = async () =>
    (await registrations.get(objectKey('', registrationName))) as Registration
  const secretKey = () => objectKey(world.namespace, SECRET)

  const configuration = (spec: object, name = `lab-${count++}`, namespace = world.namespace) => ({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name, namespace },
    spec: {
      discoveryHandler: { name: 'debugEcho', discoveryDetails: 'descriptions: [foo0]' },
      ...spec,
    },
  })
  const create = (object: ReturnType<typeof configuration>) =>
    world.client.request({
      method: 'POST',
      path: world.api('Configuration').path(object.metadata.namespace),
      body: object,
    })
  const refusal = async (object: ReturnType<typeof configuration>) => {
    const error: unknown = await create(object).then(
      () => undefined,
      (reason: unknown) => reason,
    )
    return error instanceof ApiError ? error : expect.fail(`it was not refused: ${error}`)
  }
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
    other = `akri-${randomBytes(3).toString('hex')}`
    await world.client.request({
      method: 'POST',
      path: '/api/v1/namespaces',
      body: { metadata: { name: other } },
    })
    for (const namespace of [world.namespace, other]) await labelled(namespace, 'yes')
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
    if (other !== undefined)
      await world.client.request({ method: 'DELETE', path: `/api/v1/namespaces/${other}` })
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
    await world.api('Secret').patch(secretKey(), 'json', [{ op: 'remove', path: '/data' }])
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
      configuration({
        brokerSpec: {
          brokerPodSpec: { containers: [{ name: 'b', image: 'i' }], xUnknownSyntheticField: 1 },
        },
      }),
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

  it('R66 R95 accepts a Pod as broker, and Services', async () => {
    const limits = { '{{PLACEHOLDER}}': '1' }
    const ports = [{ name: 'p', port: 0, targetPort: 0, protocol: 'TCP' }]
    await create(
      configuration({
        capacity: 2,
        brokerSpec: {
          brokerPodSpec: { containers: [{ name: 'b', image: 'i', resources: { limits } }] },
        },
        instanceServiceSpec: { type: 'ClusterIP', ports },
        configurationServiceSpec: { type: 'ClusterIP', ports: [{ port: 80, targetPort: 'http' }] },
        brokerProperties: { SITE: 'north' },
      }),
    )
  })

  it('rejects a name whose resource is taken, and accepts updates of its owner', async () => {
    // Names are unique in the whole cluster, also among the objects of earlier tests.
    const taken = `${world.namespace}-taken`
    const device = `${taken}-0a1b2c`
    await create(configuration({}, taken))
    expect((await refusal(configuration({}, taken, other))).message).toContain(
      `metadata.name: its resource akri.sh/${taken} is ` +
        'that of a Configuration in another namespace already',
    )
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Instance',
        metadata: { name: device },
        spec: {
          configurationName: taken,
          cdiName: `akri.sh/${taken}=0a1b2c`,
          capacity: 1,
          nodes: ['node-1'],
        },
      }),
    )
    const { message } = await refusal(configuration({}, device))
    await world.remove('Instance', device)
    expect(message).toContain(`akri.sh/${device} is that of an Instance already`)
    await create(configuration({}, `${world.namespace}-free-0a1b2d`))
    await world.api('Configuration').patch(world.key(taken), 'merge', { spec: { capacity: 3 } })
  })

  it('rejects a name that an Instance could have, and accepts later changes', async () => {
    const owner = `${world.namespace}-owner`
    const clash = `${owner}-0a1b2c`
    // From before the webhook.
    await labelled(other, null)
    await create(configuration({}, clash, other))
    await labelled(other, 'yes')
    await create(configuration({}, owner))
    expect((await refusal(configuration({}, `${owner}-8120fe`, other))).message).toContain(
      `its resource akri.sh/${owner}-8120fe could be ` +
        `that of an Instance of a Configuration ${owner}`,
    )
    const key = objectKey(other, clash)
    for (const change of [{ spec: { capacity: 3 } }, { metadata: { finalizers: ['akri.sh/x'] } }])
      await world.api('Configuration').patch(key, 'merge', change)
    await world.api('Configuration').patch(key, 'merge', { metadata: { finalizers: null } })
    await world.api('Configuration').delete(key)
  })

  it('lets a wrong Configuration lose its finalizer, but not change for the worse', async () => {
    await labelled(world.namespace, null)
    const wrong = configuration({ brokerSpec: { brokerPodSpec: { nonsense: true } } }, 'wrong')
    Object.assign(wrong.metadata, { finalizers: ['akri.sh/test'] })
    await eventually(() => create(wrong))
    await labelled(world.namespace, 'yes')
    const patch = (change: object) =>
      world.api('Configuration').patch(world.key('wrong'), 'merge', change)
    let capacity = 1
    await eventually(async () => {
      // Until the API server knows the label it accepts a change. A second one changes nothing.
      capacity += 1
      await expect(patch({ spec: { capacity } })).rejects.toThrow(
        'brokerPodSpec.nonsense: there is no such field',
      )
    })
    await patch({ metadata: { labels: { a: 'b' } } })
    await world.remove('Configuration', 'wrong')
    await patch({ metadata: { finalizers: null } })
    await eventually(async () => expect(await world.get('Configuration', 'wrong')).toBeUndefined())
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

  it('uses the existing certificate after a restart', async () => {
    const before = await served(replicas[0])
    expect(await replicas[0].stop()).toBe(0)
    await replicas[0].start()
    expect((await served(replicas[0])).fingerprint256).toBe(before.fingerprint256)
    await create(configuration({}))
  })

  it('fails closed or open, as configured', async () => {
    await replicas[0].stop('SIGKILL')
    expect((await refusal(configuration({}))).message).toContain('failed calling webhook')
    await replicas[1].stop()
    await replicas[1].start({ AKRI_FAILURE_POLICY: 'Ignore' })
    await eventually(async () => {
      const { webhooks } = await registration()
      expect(webhooks.map(({ failurePolicy }) => failurePolicy)).toEqual(['Ignore', 'Ignore'])
    })
    await eventually(() => create(configuration({})))
    const wrong = configuration({ brokerSpec: { brokerPodSpec: { nonsense: true } } })
    expect((await refusal(wrong)).message).toContain('brokerPodSpec.nonsense')
    await replicas[1].stop('SIGKILL')
    await create(wrong)
  })

  it('comes without a warning of Node.js, such as a leak of listeners', () => {
    for (const { output } of replicas) expect(output).not.toContain('Node.js warned')
  })
})
