import { spawn } from 'node:child_process'
import path from 'node:path'
import { ApiError } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  MANIFESTS,
  makeNamespace,
  missingForInstallation,
  provideImage,
  removeNamespace,
} from '../install/installation.js'
import { kubectl } from '../support/kubectl.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, World } from '../support/world.js'

// The webhook as operators run it: an image, installed from deploy/manifests/webhook, reached by
// its Service.

const lacks = missingForInstallation()
const FOLDER = path.join(MANIFESTS, 'webhook')
const DEPLOYMENT = 'deployment/akri-webhook-configuration'

interface WebhookPod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string }
  readonly spec: { readonly nodeName: string }
  readonly status: { readonly containerStatuses: readonly { readonly restartCount: number }[] }
}

describe.skipIf(lacks !== undefined)(
  `the webhook, installed from deploy/manifests/webhook${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let world: World
    let count = 0

    const pods = async () => {
      const text = await kubectl(
        '-n',
        'akri',
        'get',
        'pods',
        '-l',
        'app.kubernetes.io/name=akri-webhook',
        '-o',
        'json',
      )
      const { items } = JSON.parse(text) as { items: WebhookPod[] }
      return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    }
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

    it('becomes ready on two nodes, with the rights that it needs and no others', async () => {
      await kubectl('-n', 'akri', 'rollout', 'status', DEPLOYMENT, '--timeout=90s')
      const running = await pods()
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
      const may = (...what: string[]) =>
        kubectl(
          'auth',
          'can-i',
          ...what,
          '--as',
          'system:serviceaccount:akri:akri-webhook-sa',
        ).then(
          () => true,
          () => false,
        )
      expect(await may('list', 'configurations.akri.sh', '--all-namespaces')).toBe(true)
      expect(await may('patch', 'configurations.akri.sh', '-n', 'akri')).toBe(false)
      expect(await may('get', 'secrets', '-n', 'akri')).toBe(false)
      expect(await may('update', 'secrets/other', '-n', 'akri')).toBe(false)
      // A Secret that it creates could be a token of any account of the namespace.
      expect(await may('create', 'secrets', '-n', 'akri')).toBe(false)
      expect(await may('patch', 'secrets/akri-webhook-configuration', '-n', 'akri')).toBe(false)
      expect(await may('update', 'secrets/akri-webhook-configuration', '-n', 'akri')).toBe(true)
      expect(await may('patch', 'validatingwebhookconfigurations/other')).toBe(false)
    })

    it('keeps its certificate when its manifests are applied again', async () => {
      const secret = () =>
        kubectl(
          '-n',
          'akri',
          'get',
          'secret',
          'akri-webhook-configuration',
          '-o',
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
      const [first] = await pods()
      await eventually(async () =>
        expect(await kubectl('-n', 'akri', 'logs', first?.metadata.name ?? '')).toContain(
          `kubectl -n akri create secret generic ${name}`,
        ),
      )
      await create(configuration({}))
      await kubectl('-n', 'akri', 'create', 'secret', 'generic', name)
      await eventually(async () =>
        expect(
          await kubectl('-n', 'akri', 'get', 'secret', name, '-o', 'jsonpath={.data}'),
        ).toMatch(/tls\.key/),
      )
      await create(configuration({}))
    })

    it('R66 tells users of kubectl everything that is wrong', async () => {
      await eventually(() => create(configuration({})))
      const wrong = configuration({
        brokerSpec: { brokerPodSpec: { container: [] } },
        instanceServiceSpec: { port: 80 },
      })
      const refusal = await refusalByKubectl(
        JSON.stringify({ ...wrong, metadata: { ...wrong.metadata, namespace: world.namespace } }),
      )
      expect(refusal).toContain(`The Configuration "${wrong.metadata.name}" is invalid`)
      expect(refusal).toContain('* spec.brokerSpec.brokerPodSpec.container: ')
      expect(refusal).toContain('did you mean containers?')
      expect(refusal).toContain('* spec.instanceServiceSpec.port: ')
    })

    it.each([
      ['udev', 'udevRules: [KERNEL=]', /udevRules/],
      ['onvif', 'discoveryTimeout: 3', /discoveryTimeout/],
      [
        'opcua',
        'opcuaDiscoveryMethod: { standard: { discoveryUrls: [opc.tcp://plc] } }',
        /discoveryUrls.*the port is missing/,
      ],
      ['debugEcho', 'description: [foo0]', /description/],
    ])(
      'R66 checks discoveryDetails of %s by the handler that agents load',
      async (name, discoveryDetails, refusal) => {
        await expect(
          create(configuration({ discoveryHandler: { name, discoveryDetails } })),
        ).rejects.toThrow(refusal)
      },
    )

    it('is replaced by a new version without a failed request', async () => {
      const failures = await asking(async () => {
        // The Pods of the new version end at once.
        await kubectl('-n', 'akri', 'set', 'env', DEPLOYMENT, 'AKRI_DRAIN=0')
        await kubectl('-n', 'akri', 'rollout', 'status', DEPLOYMENT, '--timeout=90s')
      })
      expect(failures).toEqual([])
    })

    it('goes on when one of its replicas is killed', async () => {
      const [first] = await pods()
      const failures = await asking(async () => {
        await kubectl(
          '-n',
          'akri',
          'delete',
          'pod',
          first?.metadata.name ?? '',
          '--grace-period=0',
          '--force',
        )
        await eventually(async () => {
          const [first, second] = await pods()
          expect([first, second].map((pod) => pod?.status.containerStatuses?.length)).toEqual([
            1, 1,
          ])
        })
        await kubectl('-n', 'akri', 'rollout', 'status', DEPLOYMENT, '--timeout=60s')
      })
      // A request in flight to the killed replica can fail, and is then rejected: the webhook fails
      // closed.
      for (const failure of failures)
        expect(failure instanceof ApiError && failure.message).toContain('failed calling webhook')
      expect(failures.length).toBeLessThan(5)
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
  },
)

/** The output of kubectl for a rejected object. */
function refusalByKubectl(json: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('kubectl', ['create', '-f', '-'], { stdio: ['pipe', 'ignore', 'pipe'] })
    let refusal = ''
    child.stderr.on('data', (chunk) => {
      refusal += String(chunk)
    })
    child.on('error', reject)
    child.on('close', (code) =>
      code === 0 ? reject(new Error('it was not refused')) : resolve(refusal),
    )
    child.stdin.end(json)
  })
}
