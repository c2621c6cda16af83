import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { type Condition, type Configuration, GROUP } from '@akrijs/api'
import { load } from 'js-yaml'
import { afterEach, describe, expect, it } from 'vitest'
import { isClusterSince } from '../cluster/support/client.js'
import { useController } from './support/controlled-world.js'
import type { HostController } from './support/host-controller.js'
import { podSpec, podsIn } from './support/made.js'
import { access, missing, unless } from './support/nodes.js'
import { expectServerWarnings } from './support/server-warnings.js'
import { echoYaml, eventually, type World } from './support/world.js'

// Brokers that the API server refuses, by Pod security or by a quota, and brokers that a kubelet
// cannot start.

/** The first minor version of Kubernetes that has Pod security. */
const POD_SECURITY_SINCE = 23

const lacks = missing()
const hasPodSecurity = lacks === undefined && (await isClusterSince(POD_SECURITY_SINCE))

expectServerWarnings(/would violate PodSecurity/)

const QUOTA = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'none' } }
const SLOW_MS = 240_000

type Level = 'baseline' | 'restricted'

interface EventObject {
  readonly involvedObject: { readonly kind: string; readonly name: string }
  readonly reason: string
  readonly message: string
}

describe.skipIf(lacks !== undefined)(`brokers that the API server refuses${unless}`, () => {
  let world: World
  let controller: HostController

  useController((opened) => {
    world = opened.world
    controller = opened.controller
  })

  const namespacePath = () => `/api/v1/namespaces/${world.namespace}`

  async function enforce(level: Level | null): Promise<void> {
    const labels = { 'pod-security.kubernetes.io/enforce': level }
    const body = { metadata: { labels } }
    await world.client.request({ method: 'PATCH', path: namespacePath(), body, patch: 'merge' })
  }

  async function brokersReady(name = 'cam'): Promise<Condition> {
    const { status } = (await world.get<Configuration>('Configuration', name)) ?? {}
    const found = status?.conditions.find(({ type }) => type === 'BrokersReady')
    return found ?? expect.fail('there is no condition BrokersReady')
  }

  async function eventsOf(name: string): Promise<EventObject[]> {
    const path = `${namespacePath()}/events`
    const { items } = (await world.client.request({ method: 'GET', path })) as {
      items: EventObject[]
    }
    return items.filter(
      ({ involvedObject }) =>
        involvedObject.kind === 'Configuration' && involvedObject.name === name,
    )
  }

  const quotas = () => `${namespacePath()}/resourcequotas`
  const removeQuota = () =>
    world.client.request({ method: 'DELETE', path: `${quotas()}/none` }).catch(() => undefined)

  afterEach(async () => {
    await enforce(null)
    await removeQuota()
  })

  type Kind = readonly [name: string, brokerSpec: object]
  /** Each kind of broker. @param fields of the spec of its Pods */
  function kindsWith(fields: object): readonly Kind[] {
    const template = (restartPolicy: string) => ({
      spec: podSpec(undefined, { ...fields, restartPolicy }),
    })
    const brokerDeploymentSpec = { replicas: 1, template: template('Always') }
    return [
      ['Pods', { brokerPodSpec: podSpec(undefined, fields) }],
      ['Pods of a Job', { brokerJobSpec: { template: template('Never') } }],
      ['Pods of a Deployment', { brokerDeploymentSpec }],
    ]
  }
  const kinds = kindsWith({})
  const levels: readonly (readonly [Level, ...Kind])[] = [
    ...kinds.map((kind) => ['restricted', ...kind] as const),
    // The level baseline refuses only what reaches for the node.
    ...kindsWith({ hostNetwork: true }).map((kind) => ['baseline', ...kind] as const),
  ]

  /** The condition as soon as it has the reason. */
  const refusedFor = (reason: string) =>
    eventually(async () => {
      const condition = await brokersReady()
      expect(condition).toMatchObject({ status: 'False', reason })
      return condition
    })

  /** A controller of Kubernetes that was refused tries again after a while. */
  const getsReady = () =>
    eventually(
      async () => expect(await brokersReady()).toMatchObject({ status: 'True', reason: 'Ready' }),
      SLOW_MS,
    )

  it.skipIf(!hasPodSecurity).each(levels)(
    'show in the Configuration with the sentence of the API server: %s, %s',
    async (level, _, brokerSpec) => {
      await enforce(level)
      await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec }))
      const sentence = `violates PodSecurity "${level}:latest"`
      const refused = await refusedFor('BrokerRefused')
      expect(refused.message).toContain(sentence)
      expect(refused.message).toMatch(/^0 of 1 .* are ready, 1 failed: pods "[^"]*cam-/)
      await eventually(async () =>
        expect(await eventsOf('cam')).toContainEqual(
          expect.objectContaining({
            reason: 'BrokerRefused',
            message: expect.stringContaining(sentence),
          }),
        ),
      )
      expect(await podsIn(world)).toEqual([])
      // The API server warns of Jobs and Deployments alone: it refuses a Pod.
      const warned = `would violate PodSecurity \\"${level}:latest\\"`
      if (!('brokerPodSpec' in brokerSpec))
        await eventually(() => expect(controller.output).toContain(warned))

      await enforce(null)
      await getsReady()
      expect(await podsIn(world)).toHaveLength(1)
    },
  )

  async function allowPods(pods: string): Promise<void> {
    const body = { ...QUOTA, spec: { hard: { pods } } }
    await world.client.request({ method: 'POST', path: quotas(), body })
    // The quota counts from its first status.
    await eventually(async () => {
      const quota = await world.client.request({ method: 'GET', path: `${quotas()}/none` })
      expect(quota).toMatchObject({ status: { hard: { pods } } })
    })
  }

  it.each(kinds)('show in the Configuration: %s beyond a quota', async (_, brokerSpec) => {
    await allowPods('0')
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec }))
    expect((await refusedFor('QuotaExceeded')).message).toContain('exceeded quota: none')
    await removeQuota()
    await getsReady()
  })

  const { containers, ...rest } = podSpec()
  const image = { image: 'localhost/none:1', imagePullPolicy: 'Never' }
  it.each([
    [
      'ImagePullFailed',
      'ErrImageNeverPull',
      { ...rest, containers: [{ ...containers[0], ...image }] },
    ],
    ['CrashLoop', 'CrashLoopBackOff', podSpec('exit 1')],
  ])('show before a broker that fails on its node: %s', async (reason, word, brokerPodSpec) => {
    await allowPods('1')
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1, { brokerSpec: { brokerPodSpec } }))
    await eventually(async () =>
      expect(await brokersReady()).toMatchObject({
        status: 'False',
        reason: 'QuotaExceeded',
        message: expect.stringMatching(/^0 of 2 .* 2 failed: .*exceeded quota: none/),
      }),
    )
    await removeQuota()
    // A container that ends counts as ready while it runs.
    expect((await refusedFor(reason)).message).toMatch(
      new RegExp(`^[0-2] of 2 .* failed: Pod [^ ]*cam-.*${word}`),
    )
  })

  it.skipIf(!hasPodSecurity)(
    'are none that docs/brokers.md shows for a namespace with restricted',
    async () => {
      const page = await readFile(path.join(import.meta.dirname, '../../docs/brokers.md'), 'utf8')
      const [, yaml = ''] = /```yaml\n([^`]*name: restricted-echo[^`]*)```/.exec(page) ?? []
      const configuration = load(yaml.replace('busybox', access.shellImage)) as { spec: object }
      await enforce('restricted')
      await world.apply(JSON.stringify(configuration))
      await eventually(async () =>
        expect(await brokersReady('restricted-echo')).toMatchObject({ status: 'True' }),
      )
      const [pod] = await podsIn(world)
      const name = pod?.metadata.name ?? expect.fail('there is no broker')
      await eventually(async () => expect(await world.logs(name)).toBe('foo0'))
      expect(Object.values(await world.usage())).toHaveLength(1)
      const resources = pod?.spec.containers[0].resources
      expect(JSON.stringify(resources)).toContain(`${GROUP}/restricted-echo-`)
      await world.remove('Configuration', 'restricted-echo')
    },
  )
})
