import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeUnless } from '../../support/unless.js'
import {
  installedPods,
  MANIFESTS,
  makeNamespace,
  missingForInstallation,
  provideImage,
  removeNamespace,
} from '../install/installation.js'
import { kubectl, kubectlWith } from '../support/kubectl.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, World } from '../support/world.js'

// The webhook as operators run it: an image, installed from deploy/manifests/webhook, reached by
// its Service.

const lacks = missingForInstallation()
const FOLDER = path.join(MANIFESTS, 'webhook')
const DEPLOYMENT = 'deployment/akri-webhook-configuration'

describeUnless(lacks, 'the webhook, installed from deploy/manifests/webhook', () => {
  let world: World
  let count = 0

  const configuration = (spec: object) => ({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: `lab-${count++}` },
    spec: {
      discoveryHandler: { name: 'debugEcho', discoveryDetails: 'descriptions: []' },
      ...spec,
    },
  })
  const create = (object: object) =>
    world.client.request({
      method: 'POST',
      path: world.api('Configuration').path(world.namespace),
      query: { dryRun: 'All' },
      body: object,
    })
  /** Sends requests until `work` is done. @returns the failures */
  const asking = async (work: () => Promise<unknown>): Promise<unknown[]> => {
    const failures: unknown[] = []
    let ends = false
    const done = work().finally(() => {
      ends = true
    })
    while (!ends) await create(configuration({})).catch((error: unknown) => failures.push(error))
    await done
    return failures
  }

  beforeAll(async () => {
    world = await World.open()
    await provideImage()
    await makeNamespace()
    await kubectl('apply', '-k', FOLDER)
  })

  afterAll(async () => {
    await tidyUp(
      () => kubectl('delete', '-k', FOLDER, '--ignore-not-found'),
      async () => world?.close(),
      () => removeNamespace(),
    )
  })

  it('becomes ready on two nodes', async () => {
    await kubectl('-n', 'akri', 'rollout', 'status', DEPLOYMENT, '--timeout=90s')
    const running = await installedPods('akri-webhook')
    expect(new Set(running.map(({ spec }) => spec.nodeName)).size).toBe(2)
    for (const { metadata, status } of running) {
      expect(status.containerStatuses[0]?.restartCount).toBe(0)
      const get = (url: string) =>
        kubectl('get', '--raw', `/api/v1/namespaces/akri/pods/${metadata.name}:8080/proxy/${url}`)
      expect(await get('readyz')).toBe('ok\n')
      const metrics = await get('metrics')
      expect(metrics).toContain('akri_webhook_types_info{source="cluster"')
      expect(metrics).toMatch(/^akri_webhook_certificate_expiry_timestamp_seconds \d+$/m)
    }
  })

  it('keeps its certificate when its manifests are applied again', async () => {
    const secret = () =>
      kubectl(
        ...['-n', 'akri', 'get', 'secret', 'akri-webhook-configuration', '-o'],
        'jsonpath={.data}',
      )
    const before = await secret()
    expect(Object.keys(JSON.parse(before)).sort()).toEqual([
      'ca.crt',
      'ca.key',
      'tls.crt',
      'tls.key',
    ])
    await kubectl('apply', '-k', FOLDER)
    expect(await secret()).toBe(before)
    const manifest = path.join(FOLDER, 'secret.yaml')
    await kubectl('apply', '--server-side', '--force-conflicts', '-f', manifest)
    expect(await secret()).toBe(before)
  })

  it('goes on with its certificate without its Secret, and fills a new one', async () => {
    const name = 'akri-webhook-configuration'
    await kubectl('-n', 'akri', 'delete', 'secret', name)
    const [first] = await installedPods('akri-webhook')
    await eventually(async () =>
      expect(await kubectl('-n', 'akri', 'logs', first?.metadata.name ?? '')).toContain(
        `kubectl -n akri create secret generic ${name}`,
      ),
    )
    await create(configuration({}))
    await kubectl('-n', 'akri', 'create', 'secret', 'generic', name)
    await eventually(async () =>
      expect(await kubectl('-n', 'akri', 'get', 'secret', name, '-o', 'jsonpath={.data}')).toMatch(
        /tls\.key/,
      ),
    )
    await create(configuration({}))
  })

  it('R66 tells users of kubectl everything that is wrong', async () => {
    await eventually(() => create(configuration({})))
    const wrong = configuration({
      discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [KERNEL=]' },
      brokerSpec: { brokerPodSpec: { container: [] } },
      instanceServiceSpec: { port: 80 },
    })
    const { metadata } = wrong
    const object = { ...wrong, metadata: { ...metadata, namespace: world.namespace } }
    const refusal = await kubectlWith(JSON.stringify(object), 'create', '-f', '-').catch(String)
    expect(refusal).toContain(`The Configuration "${metadata.name}" is invalid`)
    expect(refusal).toContain('* spec.brokerSpec.brokerPodSpec.container: ')
    expect(refusal).toContain('did you mean containers?')
    expect(refusal).toContain('* spec.instanceServiceSpec.port: ')
    expect(refusal).toMatch(/\* spec\.discoveryHandler\.discoveryDetails.*udevRules/)
  })

  it('is replaced by a new version without a failed request', async () => {
    const failures = await asking(async () => {
      // The Pods of the new version end at once.
      await kubectl('-n', 'akri', 'set', 'env', DEPLOYMENT, 'AKRI_DRAIN=0')
      await kubectl('-n', 'akri', 'rollout', 'status', DEPLOYMENT, '--timeout=90s')
    })
    expect(failures).toEqual([])
  })

  it('leads to rejections if no replica answers, until the policy is Ignore', async () => {
    await kubectl('-n', 'akri', 'scale', DEPLOYMENT, '--replicas=0')
    // A replica that is ending still answers, and writes its failure policy.
    await eventually(async () => {
      const selector = ['-l', 'app.kubernetes.io/name=akri-webhook', '-o', 'name']
      expect(await kubectl('-n', 'akri', 'get', 'pods', ...selector)).toBe('')
    })
    await expect(create(configuration({}))).rejects.toThrow('failed calling webhook')
    await world.client.request({
      method: 'PATCH',
      path:
        '/apis/admissionregistration.k8s.io/v1' +
        '/validatingwebhookconfigurations/akri-webhook-configuration',
      body: [{ op: 'replace', path: '/webhooks/0/failurePolicy', value: 'Ignore' }],
      patch: 'json',
    })
    await eventually(() =>
      create(configuration({ brokerSpec: { brokerPodSpec: { nonsense: 1 } } })),
    )
  })
})
