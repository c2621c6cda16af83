import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { objectKey, Resource } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART } from '../../helm/chart.js'
import { HELMS, type Helm, missingHelm, runHelm } from '../../helm/programs.js'
import { missingForInstallation, provideImage } from '../install/installation.js'
import { kubectl } from '../support/kubectl.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, World } from '../support/world.js'

// A Configuration and the webhook in one release. The webhook writes into an object of the release:
// Helm and the webhook must not meet at one field. Each test of a Helm builds on those before it.

const REGISTRATIONS = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
}
const NAME = 'akri-webhook-configuration'
const CONFIGURATION = 'akri-debug-echo'

interface Registration {
  readonly metadata: { readonly resourceVersion: string }
  readonly webhooks: readonly {
    readonly failurePolicy: string
    readonly rules?: readonly object[]
    readonly clientConfig: { readonly caBundle?: string }
  }[]
}

let world: World
let namespace: string
let registrations: Resource
let earlierChart: string

beforeAll(async () => {
  if (missingForInstallation() !== undefined) return
  world = await World.open()
  ;({ namespace } = world)
  registrations = new Resource(world.client, REGISTRATIONS)
  await provideImage()
  earlierChart = await chartWithTheFields()
})

afterAll(async () => {
  if (missingForInstallation() !== undefined) return
  await tidyUp(
    // After a test that failed.
    () => runHelm('helm3', 'uninstall', 'akri', '--namespace', namespace, '--ignore-not-found'),
    () => rm(earlierChart, { recursive: true, force: true }),
    async () => world?.close(),
  )
})

/** A chart of before, which wrote the rules and a failure policy for the start. */
async function chartWithTheFields(): Promise<string> {
  const chart = await mkdtemp(path.join(os.tmpdir(), 'akri-chart-'))
  await cp(CHART, chart, { recursive: true })
  const file = path.join(chart, 'templates/webhook.yaml')
  const text = await readFile(file, 'utf8')
  const policy = 'ternary "Ignore" .failurePolicy (include "akri.anyConfiguration" $ | empty | not)'
  const fields = `
    rules:
      - apiGroups: [akri.sh]
        apiVersions: [v0]
        operations: [CREATE, UPDATE]
        resources: [configurations]
        scope: "*"
    failurePolicy: {{ ${policy} }}`
  const earlier = text.replace(
    '    matchPolicy: Equivalent',
    (line) => `${fields.slice(1)}\n${line}`,
  )
  expect(earlier).not.toBe(text)
  await writeFile(file, earlier)
  return chart
}

const registration = async () =>
  (await registrations.get(objectKey('', NAME))) as Registration | undefined
const capacity = async () =>
  ((await world.get('Configuration', CONFIGURATION)) as { spec: { capacity: number } }).spec
    .capacity
const dryRun = (brokerPodSpec: object) =>
  world.client.request({
    method: 'POST',
    path: world.api('Configuration').path(namespace),
    query: { dryRun: 'All' },
    body: {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'wrong' },
      spec: {
        discoveryHandler: { name: 'debugEcho', discoveryDetails: 'descriptions: []' },
        brokerSpec: { brokerPodSpec },
      },
    },
  })
const isReviewed = async () => {
  const wrong = { containers: [], nonsense: true }
  await eventually(() => expect(dryRun(wrong)).rejects.toThrow('nonsense: there is no such field'))
}
const hasPolicy = async (failurePolicy: string) => {
  await kubectl('-n', namespace, 'rollout', 'status', `deployment/${NAME}`, '--timeout=90s')
  await eventually(async () =>
    expect(await registration()).toMatchObject({
      webhooks: [{ failurePolicy, rules: [{}], clientConfig: { caBundle: expect.any(String) } }],
    }),
  )
}

async function release(
  helm: Helm,
  command: 'install' | 'upgrade',
  values: readonly string[] = [],
  chart: string = CHART,
  ...more: readonly string[]
): Promise<void> {
  const all = [
    'agent.enabled=false,controller.enabled=false,debugEcho.configuration.enabled=true',
    ...values,
  ].join()
  const options = ['--namespace', namespace, '--skip-crds', '--set', all, ...more]
  await runHelm(helm, command, 'akri', chart, ...options)
}
const rollback = (helm: Helm, ...more: readonly string[]) =>
  runHelm(helm, 'rollback', 'akri', '1', '--namespace', namespace, ...more)
async function uninstall(helm: Helm): Promise<void> {
  await runHelm(helm, 'uninstall', 'akri', '--namespace', namespace)
  expect(await registration()).toBeUndefined()
  expect(await world.get('Configuration', CONFIGURATION)).toBeUndefined()
}

describe.for(HELMS)('a Configuration and the webhook in one release of %s', (helm) => {
  const lacks = missingForInstallation() ?? missingHelm(helm)
  describe.skipIf(lacks !== undefined)(lacks ?? 'of this chart', () => {
    it('are installed together, though no webhook answers yet', async () => {
      await release(helm, 'install')
      await hasPolicy('Fail')
      await isReviewed()
    })

    it('are upgraded, and the registration of the webhook stays as it is', async () => {
      const before = await registration()
      await release(helm, 'upgrade', ['debugEcho.configuration.capacity=3'])
      expect(await capacity()).toBe(3)
      expect(await registration()).toEqual(before)
    })

    it('get another failure policy, once the webhook runs with the new value', async () => {
      await release(helm, 'upgrade', ['webhookConfiguration.failurePolicy=Ignore'])
      await hasPolicy('Ignore')
      const values = [
        'webhookConfiguration.failurePolicy=Ignore,debugEcho.configuration.capacity=4',
      ]
      await release(helm, 'upgrade', values)
      expect(await capacity()).toBe(4)
    })

    it('return to the first revision', async () => {
      await rollback(helm)
      expect(await capacity()).toBe(2)
      await hasPolicy('Fail')
      await isReviewed()
    })

    it('are uninstalled together', () => uninstall(helm))
  })

  describe.skipIf(lacks !== undefined)(lacks ?? 'of a chart that wrote the same fields', () => {
    it('are upgraded to this chart', async () => {
      await release(helm, 'install', [], earlierChart)
      await hasPolicy('Fail')
      await release(helm, 'upgrade', ['debugEcho.configuration.capacity=3'])
      expect(await capacity()).toBe(3)
      await hasPolicy('Fail')
      await isReviewed()
      await release(helm, 'upgrade', ['debugEcho.configuration.capacity=4'])
      expect(await capacity()).toBe(4)
    })

    it('return to the chart of before, with Helm 4 by force', async () => {
      if (helm === 'helm3') await rollback(helm)
      else {
        await expect(rollback(helm)).rejects.toThrow(/conflict.*failurePolicy/s)
        await rollback(helm, '--force-conflicts')
      }
      expect(await capacity()).toBe(2)
      await hasPolicy('Fail')
      await uninstall(helm)
    })
  })
})

const lacksOne =
  missingForInstallation() ?? HELMS.map(missingHelm).find((lacks) => lacks !== undefined)
const reason = lacksOne === undefined ? '' : ` (${lacksOne})`
describe.skipIf(lacksOne !== undefined)(
  `a Configuration and the webhook in a release of Helm 3${reason}`,
  () => {
    it('are upgraded by Helm 4 to this chart, on the server', async () => {
      await release('helm3', 'install', [], earlierChart)
      await hasPolicy('Fail')
      await release(
        'helm4',
        'upgrade',
        ['debugEcho.configuration.capacity=3'],
        CHART,
        '--server-side=true',
      )
      expect(await capacity()).toBe(3)
      await hasPolicy('Fail')
      await release('helm4', 'upgrade', ['debugEcho.configuration.capacity=4'])
      expect(await capacity()).toBe(4)
      await uninstall('helm4')
    })
  },
)
