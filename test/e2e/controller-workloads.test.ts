import type { Configuration } from '@akrijs/api'
import { describe, expect, it, onTestFinished } from 'vitest'
import { useController } from './support/controlled-world.js'
import { History } from './support/history.js'
import type { HostController } from './support/host-controller.js'
import {
  addresses,
  alivePodsIn,
  type Made,
  namesIn,
  podSpec,
  podsIn,
  refuse,
  runningPodsIn,
  service,
} from './support/made.js'
import { makeDirectories, missing, NODES, onNode, unless } from './support/nodes.js'
import { echoYaml, eventually, type World } from './support/world.js'

// Jobs and Deployments as brokers, and edits of objects that the controller applied.

describe.skipIf(missing() !== undefined)(
  `broker Jobs and Deployments on a real cluster${unless}`,
  () => {
    let world: World
    let controller: HostController

    useController((opened) => {
      world = opened.world
      controller = opened.controller
    })

    it('R50 R52 R53 R54 C2 C4 C5 a Job runs once for each device and spec', async () => {
      const job = (script: string, directory: string) => {
        const { containers, ...spec } = podSpec(script, { restartPolicy: 'Never' })
        const volumeMounts = [{ name: 'shared', mountPath: '/shared' }]
        const volumes = [{ name: 'shared', hostPath: { path: directory } }]
        const mounted = {
          ...spec,
          volumes,
          containers: containers.map((each) => ({ ...each, volumeMounts })),
        }
        const template = { metadata: { labels: { mine: 'x' } }, spec: mounted }
        return {
          brokerSpec: { brokerJobSpec: { backoffLimit: 0, template } },
          configurationServiceSpec: service(81),
        }
      }
      const shared = await makeDirectories()
      const onAll = (...command: string[]) =>
        Promise.all(NODES.map((node) => onNode(node, ...command)))
      onTestFinished(() => void onAll('rm', '-rf', shared))
      // The scripts wait for a signal, so all of them run at the same time, however long they take
      // to start.
      const waiting = job('until [ -e /shared/done ]; do sleep 0.2; done', shared)
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2, waiting))
      await eventually(async () =>
        expect(await namesIn(world, 'Job')).toEqual(['cam-8120fe-1-job', 'cam-a19705-1-job']),
      )
      await eventually(async () => expect(await addresses(world, 'cam-svc')).toHaveLength(2))
      await onAll('touch', `${shared}/done`)
      const done = async (count: number) => {
        const jobs = await world.list<Made>('Job')
        expect(
          jobs.filter(({ status }) => status.conditions?.some(({ type }) => type === 'Complete')),
        ).toHaveLength(count)
      }
      await eventually(() => done(2))
      // The Service is removed with the last broker.
      await eventually(async () => expect(await namesIn(world, 'Service')).toEqual([]))
      for (const { metadata, spec } of await podsIn(world)) {
        expect(metadata.labels).toMatchObject({
          mine: 'x',
          controller: 'akri.sh',
          'akri.sh/configuration': 'cam',
        })
        expect(spec.affinity?.nodeAffinity).toBeUndefined()
      }

      // A person deletes the Jobs, and the controller restarts: no finished Job runs again.
      await world.remove('Job', 'cam-8120fe-1-job')
      await eventually(async () =>
        expect(await namesIn(world, 'Job')).toEqual(['cam-a19705-1-job']),
      )
      await controller.stop('SIGTERM')
      await controller.lead()
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, waiting))
      await eventually(async () =>
        expect((await world.instances()).map(({ spec }) => spec.capacity)).toEqual([3, 3]),
      )
      expect(await namesIn(world, 'Job')).toEqual(['cam-a19705-1-job'])

      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, job('true', shared)))
      await eventually(async () =>
        expect(await namesIn(world, 'Job')).toEqual(['cam-8120fe-3-job', 'cam-a19705-3-job']),
      )
      await eventually(() => done(2))
    })

    it('R86 a Job whose Pods were all rejected is replaced', async () => {
      const template = {
        spec: podSpec('true', { restartPolicy: 'Never' }, { 'akri.sh/cam-8120fe': '7' }),
      }
      await world.apply(
        echoYaml('cam', ['foo0'], 1, {
          brokerSpec: { brokerJobSpec: { backoffLimit: 0, template } },
        }),
      )
      const [pod] = await eventually(async () => {
        const found = await podsIn(world)
        expect(found).toHaveLength(1)
        return found
      })
      const [job] = await world.list<Made>('Job')
      await refuse(world, pod?.metadata.name ?? '')
      await eventually(async () => {
        const jobs = await world.list<Made>('Job')
        expect(jobs.map(({ metadata }) => metadata.annotations['akri.sh/restarts'])).toEqual(['1'])
        expect(jobs[0]?.metadata.uid).not.toBe(job?.metadata.uid)
      })
    })

    it('R9 R42 R86 the Pods of a Deployment share all devices of the Configuration', async () => {
      const deployment = (replicas: number) => ({
        brokerSpec: { brokerDeploymentSpec: { replicas, template: { spec: podSpec() } } },
        configurationServiceSpec: service(81),
      })
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1, deployment(3)))
      await eventually(async () => {
        const phases = (await alivePodsIn(world)).map(({ status }) => status.phase).sort()
        expect(phases).toEqual(['Pending', 'Running', 'Running'])
      })
      expect((await world.holders()).map((holder) => holder.slice(0, 2))).toEqual(['C:', 'C:'])
      await eventually(async () => expect(await addresses(world, 'cam-svc')).toHaveLength(2))
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1, deployment(1)))
      await eventually(() => runningPodsIn(world, 1))
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
      await eventually(async () => {
        expect(await namesIn(world, 'Deployment')).toEqual([])
        expect(await namesIn(world, 'Pod')).toEqual([])
        expect(await namesIn(world, 'Service')).toEqual([])
      })
    })

    it('R61 a refused change of a Service leaves it; a fixed field has it replaced', async () => {
      const foreign = (name: string, more: object) =>
        world.api('Service').create(world.namespace, {
          metadata: { name },
          spec: { ...service(80), ...more },
        }) as Promise<Made>
      const { spec } = await foreign('foreign', { type: 'NodePort' })
      const [{ nodePort }] = spec.ports
      const { clusterIP } = (await foreign('gone', {})).spec
      await world.remove('Service', 'gone')
      const apply = (more: object) =>
        world.apply(
          echoYaml('cam', ['foo0'], 1, {
            brokerSpec: {
              brokerDeploymentSpec: { replicas: 1, template: { spec: podSpec() } },
            },
            configurationServiceSpec: { ...service(81), ...more },
          }),
        )
      const uid = async () => (await world.get<Made>('Service', 'cam-svc'))?.metadata.uid
      await apply({})
      const first = await eventually(async () => (await uid()) ?? expect.fail('it is not there'))
      await apply({ type: 'NodePort', ports: [{ ...service(81).ports[0], nodePort }] })
      await eventually(() => expect(controller.output).toContain('port is already allocated'))
      expect(await uid()).toBe(first)
      await apply({ clusterIP })
      await eventually(async () => {
        expect(await uid()).not.toBe(first)
        expect((await world.get<Made>('Service', 'cam-svc'))?.spec).toMatchObject({ clusterIP })
      })
      await world.remove('Service', 'foreign')
    })

    it('R102 edited fields of Services and the Deployment are restored', async () => {
      const pod = podSpec(undefined, {}, {})
      const containers = [{ ...pod.containers[0], env: [{ name: 'DOOR', value: 'shut' }] }]
      const brokerDeploymentSpec = { replicas: 1, template: { spec: { ...pod, containers } } }
      const more = { brokerSpec: { brokerDeploymentSpec }, configurationServiceSpec: service(81) }
      await world.apply(echoYaml('cam', ['foo0'], 3, more))
      await eventually(async () => expect(await namesIn(world, 'Service')).toEqual(['cam-svc']))
      const made = async () => {
        const [found, deployment] = [
          await world.get<Made>('Service', 'cam-svc'),
          await world.get<Made>('Deployment', 'cam-deployment'),
        ]
        const { labels } = found?.metadata ?? {}
        const { template } = deployment?.spec ?? {}
        return {
          labels,
          spec: found?.spec,
          door: template?.spec.containers[0].env,
          annotations: template?.metadata.annotations,
        }
      }
      const before = await made()
      const uid = (await world.get<Made>('Service', 'cam-svc'))?.metadata.uid

      await world.api('Service').patch(world.key('cam-svc'), 'merge', {
        metadata: { labels: { mine: 'x', 'akri.sh/configuration': 'other' } },
        spec: { selector: { controller: null, app: 'mine' } },
      })
      await world.api('Deployment').patch(world.key('cam-deployment'), 'json', [
        { op: 'replace', path: '/spec/template/spec/containers/0/env/0/value', value: 'open' },
        { op: 'add', path: '/spec/template/metadata/annotations', value: { restarted: 'now' } },
      ])
      await eventually(async () =>
        expect(await made()).toEqual({
          labels: { ...before.labels, mine: 'x' },
          // Since Kubernetes 1.21 a selector is one field.
          spec: before.spec,
          door: before.door,
          annotations: { restarted: 'now' },
        }),
      )
      expect((await world.get<Made>('Service', 'cam-svc'))?.metadata.uid).toBe(uid)
      // The controller then writes only the summary of the Configuration.
      const [last] = await eventually(() => runningPodsIn(world, 1))
      await eventually(async () => {
        const { status } = (await world.get<Configuration>('Configuration', 'cam')) ?? {}
        expect(status).toMatchObject({ devices: 1, nodeCounts: { ready: NODES.length } })
        expect(status?.conditions).toContainEqual(
          expect.objectContaining({ type: 'BrokersReady', status: 'True' }),
        )
      })
      const summaries = await History.begin<Configuration>(world, 'Configuration')
      const { PATCH = 0 } = await controller.requests()
      await world.remove('Pod', last?.metadata.name ?? '')
      await eventually(async () =>
        expect((await runningPodsIn(world, 1))[0]?.metadata.uid).not.toBe(last?.metadata.uid),
      )
      await eventually(async () => {
        const { conditions = [] } = summaries.states.at(-1)?.status ?? {}
        expect(conditions.find(({ type }) => type === 'BrokersReady')?.status).toBe('True')
        expect((await controller.requests()).PATCH).toBe(PATCH + summaries.states.length - 1)
      })
      await summaries.end()
    })
  },
)
