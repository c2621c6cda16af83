import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { type ApiClient, objectKey, Resource, SECRETS } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { clientOfCluster } from '../../cluster/support/client.js'
import { CHART } from '../../helm/chart.js'
import { HELMS, missingHelm, runHelm } from '../../helm/programs.js'
import { missing } from '../support/nodes.js'

const NAME = 'akri-webhook-configuration'
/** The webhook alone, on no node: its Pods would write the Secret. Helm does not wait for them. */
const VALUES = [
  ...['--set', 'agent.enabled=false,controller.enabled=false'],
  ...['--set', 'webhookConfiguration.nodeSelectors.none=here', '--skip-crds'],
]

interface Secret {
  readonly type: string
  readonly metadata: {
    readonly uid: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly data?: Readonly<Record<string, string>>
}

describe.for(HELMS)('the Secret of the webhook in releases of %s', (program) => {
  const lacks = missing() ?? missingHelm(program)
  describe.skipIf(lacks !== undefined)(lacks ?? 'on this cluster', () => {
    let client: ApiClient
    let secrets: Resource
    let namespace: string
    const key = () => objectKey(namespace, NAME)
    const secret = async () => (await secrets.get(key())) as Secret | undefined
    const helm = (...args: string[]) => runHelm(program, ...args, '--namespace', namespace)
    const data = (text: string) =>
      Object.fromEntries(
        ['ca.crt', 'ca.key', 'tls.crt', 'tls.key'].map((name) => [
          name,
          Buffer.from(`${text} ${name}`).toString('base64'),
        ]),
      )

    beforeEach(async () => {
      client = await clientOfCluster()
      secrets = new Resource(client, SECRETS)
      namespace = `akri-${randomBytes(3).toString('hex')}`
      const body = { metadata: { name: namespace } }
      await client.request({ method: 'POST', path: '/api/v1/namespaces', body })
    })

    afterEach(async () => {
      await helm('uninstall', 'akri').catch(() => undefined)
      await client.request({ method: 'DELETE', path: `/api/v1/namespaces/${namespace}` })
      client.close()
    })

    it('is installed empty, and keeps its certificate when the release is upgraded', async () => {
      await helm('install', 'akri', path.resolve(CHART), ...VALUES)
      const installed = await secret()
      expect(installed).toMatchObject({ type: 'Opaque' })
      expect(installed?.data).toBeUndefined()
      // As the webhook writes it.
      await secrets.replace(key(), { ...installed, data: data('first') })
      for (const level of ['debug', 'info']) {
        const values = [...VALUES, '--set', `webhookConfiguration.logLevel=${level}`]
        await helm('upgrade', 'akri', path.resolve(CHART), ...values)
        expect(await secret()).toMatchObject({
          metadata: { uid: installed?.metadata.uid },
          data: data('first'),
        })
      }
      await helm('uninstall', 'akri')
      expect(await secret()).toBeUndefined()
    })

    it('stays as a webhook of version 0.1.0 created it', async () => {
      const type = 'kubernetes.io/tls'
      await secrets.create(namespace, { metadata: { name: NAME }, type, data: data('old') })
      const before = await secret()
      await helm('install', 'akri', path.resolve(CHART), ...VALUES)
      expect(await secret()).toEqual(before)
      await helm('upgrade', 'akri', path.resolve(CHART), ...VALUES)
      expect(await secret()).toEqual(before)
      await helm('uninstall', 'akri')
      expect(await secret()).toEqual(before)
    })
  })
})
