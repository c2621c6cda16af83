import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { ConfigurationStatus, Instance } from '@akrijs/api'
import { type ApiClient, ApiError } from '@akrijs/kube'
import { load } from 'js-yaml'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { IMAGE } from '../support/image.js'
import { kubectl } from '../support/kubectl.js'
import { access, filesBelow, missingHere, NODE_1, NODE_2, NODES, onNode } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { echoYaml, eventually, podYaml, World } from '../support/world.js'
import {
  clientOfAgent,
  type InstalledPod,
  inPod,
  installedPods,
  joinNodes,
  MANIFESTS,
  makeNamespace,
  missingForInstallation,
  NODE_DIRECTORIES,
  provideImage,
  removeNamespace,
  rolledOut,
  separateNodes,
} from './installation.js'

// The agent as operators run it: an image, installed from deploy/manifests. Each test builds on the
// tests before it.

const lacks = missingForInstallation()
const DAEMON_SET = 'daemonset/akri-agent-daemonset'
/** Block devices that come and go. All nodes share the kernel of this machine. */
const ZRAM = '/sys/class/zram-control'
const withoutZram = missingHere() ?? (existsSync(ZRAM) ? undefined : 'needs zram')
const PLUGINS = '/var/lib/kubelet/device-plugins'

describe.skipIf(lacks !== undefined)(
  `the agent, installed from deploy/manifests${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let world: World
    let socketsBefore: string[][]

    const agents = () => installedPods('akri-agent')
    const allocatable = (resource: string) =>
      Promise.all(NODES.map((node) => world.allocatable(node, resource)))
    const status = async (configuration: string) =>
      (await world.get<{ status?: ConfigurationStatus }>('Configuration', configuration))?.status
    const condition = async (configuration: string, type: string) =>
      (await status(configuration))?.conditions.find((item) => item.type === type)
    const identities = async () =>
      (await world.instances())
        .map(({ metadata, spec }) => ({ uid: metadata.uid, generation: metadata.generation, spec }))
        .toSorted((a, b) => a.uid.localeCompare(b.uid))
    const instancesOf = async (configuration: string) =>
      (await world.instances()).filter(({ spec }) => spec.configurationName === configuration)
    const example = (name: string) =>
      kubectl('-n', world.namespace, 'apply', '-f', path.join(MANIFESTS, 'examples', name))
    // The kubelet writes its checkpoint at its first allocation.
    const sockets = async () => {
      const files = await Promise.all(NODES.map((node) => filesBelow(node, PLUGINS)))
      return files.map((names) =>
        names.filter((name) => name !== 'kubelet_internal_checkpoint').sort(),
      )
    }

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
      socketsBefore = await sockets()
      await makeNamespace()
      await kubectl('apply', '-k', MANIFESTS)
      world = await World.open()
    })

    afterAll(async () => {
      const agent = path.join(MANIFESTS, 'agent')
      const controller = path.join(MANIFESTS, 'controller')
      await tidyUp(
        async () => world?.close(),
        () => kubectl('delete', '-k', controller, '--ignore-not-found'),
        () => kubectl('delete', '-k', agent, '--ignore-not-found'),
        () => removeNamespace(),
        () => joinNodes(),
      )
    })

    it('A23 becomes ready on every node, answers its probes, and has metrics', async () => {
      await rolledOut(DAEMON_SET)
      const pods = await agents()
      expect(pods.map(({ spec }) => spec.nodeName).sort()).toEqual([...NODES])
      for (const { metadata, spec, status } of pods) {
        expect(spec.containers.map(({ image }) => image)).toEqual([IMAGE])
        expect(status.containerStatuses[0]?.restartCount).toBe(0)
        const get = (url: string) =>
          kubectl('get', '--raw', `/api/v1/namespaces/akri/pods/${metadata.name}:8080/proxy/${url}`)
        expect(await get('healthz')).toBe('ok\n')
        expect(await get('readyz')).toBe('ok\n')
        expect(await get('metrics')).toMatch(/^akri_/m)
      }
    })

    it('R98 R106 gives the devices of the debugEcho example to Pods on both nodes', async () => {
      await example('debug-echo.yaml')
      await eventually(async () =>
        expect(await allocatable('akri.sh/akri-debug-echo')).toEqual([2, 2]),
      )
      for (const digest of ['8120fe', 'a19705'])
        await eventually(async () =>
          expect(await allocatable(`akri.sh/akri-debug-echo-${digest}`)).toEqual([2, 2]),
        )
      const instances = await world.instances()
      expect(instances.map(({ spec }) => spec.nodes.toSorted())).toEqual([[...NODES], [...NODES]])
      for (const node of NODES) {
        await world.apply(podYaml(`on-${node}`, { 'akri.sh/akri-debug-echo': 1 }, { node }))
        await eventually(async () =>
          expect(await world.logs(`on-${node}`)).toMatch(
            /^DEBUG_ECHO_DESCRIPTION_(8120FE=foo0|A19705=foo1)$/m,
          ),
        )
      }
      expect(
        Object.values(await world.usage())
          .filter(Boolean)
          .sort(),
      ).toEqual([`C:0:${NODE_1}`, `C:0:${NODE_2}`])
    })

    it('R93 R102 comes with a controller of two replicas with the rights it needs', async () => {
      await rolledOut('deployment/akri-controller-deployment')
      const container = { name: 'b', image: access.shellImage, command: ['/bin/sleep', '100000'] }
      const spec = { terminationGracePeriodSeconds: 0, containers: [container] }
      const ports = [{ name: 'p', port: 80, protocol: 'TCP' }]
      const services = { instanceServiceSpec: { ports }, configurationServiceSpec: { ports } }
      const jobSpec = {
        template: {
          spec: {
            ...spec,
            restartPolicy: 'Never',
            containers: [{ ...container, command: ['true'] }],
          },
        },
      }
      await world.apply(
        echoYaml('pods', ['foo0'], 2, { brokerSpec: { brokerPodSpec: spec }, ...services }),
      )
      await world.apply(echoYaml('jobs', ['foo0'], 1, { brokerSpec: { brokerJobSpec: jobSpec } }))
      await world.apply(
        echoYaml('pool', ['foo0'], 1, {
          brokerSpec: { brokerDeploymentSpec: { replicas: 1, template: { spec } } },
        }),
      )
      await eventually(async () => {
        const labelled = await kubectl(
          '-n',
          world.namespace,
          'get',
          'pods,jobs,deployments',
          '-l',
          'controller=akri.sh',
          '-o',
          'name',
        )
        const kinds = labelled
          .trim()
          .split('\n')
          .map((name) => name.split('/')[0])
        expect(kinds.sort()).toEqual(['deployment.apps', 'job.batch', 'pod', 'pod', 'pod', 'pod'])
        expect((await world.list('Service')).length).toBe(2)
        const [instance] = await instancesOf('jobs')
        expect(instance).toMatchObject({ status: { brokerJob: { name: 'jobs-8120fe-1-job' } } })
      })
      for (const name of ['pods', 'jobs', 'pool']) await world.remove('Configuration', name)
      await eventually(async () => {
        const left = await kubectl(
          '-n',
          world.namespace,
          'get',
          'pods,jobs,deployments,services',
          '-l',
          'controller=akri.sh',
          '-o',
          'name',
        )
        expect(left).toBe('')
      })
    })

    it('R68 R69 publishes reports of an unprivileged Pod, and leaves none behind', async () => {
      const script =
        'cd "$AKRI_BROKER_INFO_DIRECTORY" && echo 2.4.1 >firmware-version; exec sleep 100000'
      const pod = JSON.parse(
        podYaml(
          'reporter',
          { 'akri.sh/akri-debug-echo': 1 },
          { node: NODES[0], script, graceSeconds: 0 },
        ),
      )
      pod.spec.securityContext = { runAsUser: 4711, runAsGroup: 4711 }
      await world.apply(JSON.stringify(pod))
      const reported = async () =>
        (await world.list<Instance>('Instance')).flatMap(({ status }) =>
          Object.entries(status?.brokerInfo ?? {}),
        )
      await eventually(async () =>
        expect(await reported()).toEqual([['firmware-version', '2.4.1\n']]),
      )
      await world.remove('Pod', 'reporter')
      await eventually(async () => expect(await reported()).toEqual([]))
      await eventually(async () =>
        expect(await filesBelow(NODES[0], '/var/lib/akri-agent')).not.toContainEqual(
          expect.stringContaining('firmware'),
        ),
      )
    })

    it('accepts the udev example', async () => {
      await example('udev.yaml')
      await eventually(async () => {
        expect((await status('akri-udev'))?.nodeCounts).toMatchObject({
          reporting: NODES.length,
          silent: 0,
        })
        expect(await condition('akri-udev', 'Discovering')).toMatchObject({ status: 'True' })
        expect(await condition('akri-udev', 'HandlerConnected')).toMatchObject({ status: 'True' })
      })
    })

    it('R3 finds devices of its node by udev rules', async () => {
      const discoveryDetails = 'udevRules: [KERNEL=="null"]'
      await world.apply(
        JSON.stringify({
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name: 'nulls' },
          spec: { discoveryHandler: { name: 'udev', discoveryDetails } },
        }),
      )
      await eventually(async () => expect(await allocatable('akri.sh/nulls')).toEqual([1, 1]))
      await world.apply(
        podYaml(
          'null',
          { 'akri.sh/nulls': 1 },
          { script: 'ls -l $UDEV_DEVNODE; exec sleep 100000' },
        ),
      )
      await eventually(async () =>
        expect(await world.logs('null')).toMatch(/^crw.* 1, +3 .*\/dev\/null$/),
      )
    })

    it.skipIf(withoutZram !== undefined)(
      `R101 sees kernel events when a device vanishes and comes back (${withoutZram ?? 'zram'})`,
      async () => {
        const number = readFileSync(`${ZRAM}/hot_add`, 'utf8').trim()
        let present = true
        try {
          await world.apply(
            JSON.stringify({
              apiVersion: 'akri.sh/v0',
              kind: 'Configuration',
              metadata: { name: 'zram' },
              spec: {
                discoveryHandler: {
                  name: 'udev',
                  discoveryDetails: `udevRules: [KERNEL=="zram${number}"]`,
                },
              },
            }),
          )
          await eventually(async () => expect(await allocatable('akri.sh/zram')).toEqual([1, 1]))
          // Four times faster than a poll every ten seconds would probably be.
          for (let turn = 0; turn < 2; turn++) {
            writeFileSync(`${ZRAM}/hot_remove`, number)
            present = false
            await eventually(async () => expect(await instancesOf('zram')).toHaveLength(0), 3000)
            expect(readFileSync(`${ZRAM}/hot_add`, 'utf8').trim()).toBe(number)
            present = true
            await eventually(
              async () => expect(await instancesOf('zram')).toHaveLength(NODES.length),
              3000,
            )
          }
        } finally {
          if (present) writeFileSync(`${ZRAM}/hot_remove`, number)
          await world.remove('Configuration', 'zram')
        }
        await eventually(async () => expect(await instancesOf('zram')).toEqual([]))
      },
    )

    it('runs without capabilities, with seccomp and a read-only file system', async () => {
      for (const pod of await agents()) {
        const process = await inPod(pod, 'cat /proc/1/status')
        for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
          expect(process).toMatch(new RegExp(`^${set}:\\t0+$`, 'm'))
        expect(process).toMatch(/^NoNewPrivs:\t1$/m)
        expect(process).toMatch(/^Seccomp:\t2$/m)
        for (const directory of [
          '/',
          '/app',
          '/tmp',
          '/run/udev',
          '/var/lib/kubelet/pod-resources',
        ])
          await expect(inPod(pod, `touch ${directory}/x`)).rejects.toThrow('Read-only file system')
      }
    })

    it('stays below its memory request', async () => {
      const { spec } = load(await kubectl('-n', 'akri', 'get', DAEMON_SET, '-o', 'yaml')) as {
        spec: {
          template: { spec: { containers: { resources: { requests: { memory: string } } }[] } }
        }
      }
      const requested = spec.template.spec.containers[0]?.resources.requests.memory
      expect(requested).toMatch(/^\d+Mi$/)
      for (const pod of await agents()) {
        const rss = /^VmRSS:\s+(\d+) kB$/m.exec(await inPod(pod, 'cat /proc/1/status'))?.[1]
        expect(Number(rss) / 1024, `RSS of ${pod.spec.nodeName} in MiB`).toBeLessThan(
          Number(requested?.slice(0, -2)),
        )
      }
    })

    describe('with the rights of its service account', () => {
      let agent: ApiClient

      beforeAll(async () => {
        agent = await clientOfAgent(world.client)
      })

      afterAll(() => agent?.close())

      it('may do what the manifests say, and nothing more', async () => {
        const { status } = (await agent.request({
          method: 'POST',
          path: '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews',
          body: {
            apiVersion: 'authorization.k8s.io/v1',
            kind: 'SelfSubjectRulesReview',
            spec: { namespace: world.namespace },
          },
        })) as {
          status: { resourceRules: { apiGroups: string[]; resources: string[]; verbs: string[] }[] }
        }
        const may = status.resourceRules
          .flatMap(({ apiGroups, resources, verbs }) =>
            apiGroups.flatMap((group) =>
              resources.flatMap((item) => verbs.map((verb) => `${verb} ${item}.${group}`)),
            ),
          )
          // Every account may ask for its own rights.
          .filter(
            (rule) =>
              !rule.endsWith('.authorization.k8s.io') && !rule.endsWith('.authentication.k8s.io'),
          )
        expect([...new Set(may)].sort()).toEqual(
          [
            ...['get', 'list', 'watch'].map((verb) => `${verb} configurations.akri.sh`),
            'patch configurations/status.akri.sh',
            ...['get', 'create', 'patch'].map((verb) => `${verb} nodereports.akri.sh`),
            ...['get', 'list', 'watch', 'create', 'patch', 'delete'].map(
              (verb) => `${verb} instances.akri.sh`,
            ),
            'patch instances/status.akri.sh',
            ...['list', 'watch'].map((verb) => `${verb} pods.`),
            'get nodes.',
            ...['create', 'patch'].map((verb) => `${verb} events.`),
          ].sort(),
        )
      })

      it('cannot write Configurations, Pods or nodes, and cannot read Secrets', async () => {
        const namespacePath = `/api/v1/namespaces/${world.namespace}`
        const configurations = `/apis/akri.sh/v0/namespaces/${world.namespace}/configurations`
        const configuration = `${configurations}/akri-debug-echo`
        const merge = { method: 'PATCH', patch: 'merge' } as const
        const requests: readonly Parameters<ApiClient['request']>[0][] = [
          { ...merge, path: configuration, body: { spec: { capacity: 5 } } },
          { ...merge, path: configuration, body: { metadata: { finalizers: ['akri.sh/x'] } } },
          { method: 'DELETE', path: configuration },
          { method: 'POST', path: `${namespacePath}/pods`, body: JSON.parse(podYaml('x', {})) },
          { method: 'DELETE', path: `${namespacePath}/pods/on-node-1` },
          {
            ...merge,
            path: `${namespacePath}/pods/on-node-1`,
            body: { metadata: { labels: { x: 'y' } } },
          },
          { method: 'GET', path: `${namespacePath}/secrets` },
          { method: 'GET', path: `${namespacePath}/configmaps` },
          { method: 'GET', path: '/api/v1/namespaces/kube-system/secrets' },
          { method: 'GET', path: '/api/v1/nodes' },
          { ...merge, path: `/api/v1/nodes/${NODE_1}`, body: { spec: { unschedulable: true } } },
          {
            ...merge,
            path: `/api/v1/nodes/${NODE_1}/status`,
            body: { status: { capacity: { 'akri.sh/x': '1' } } },
          },
          { method: 'DELETE', path: `/api/v1/nodes/${NODE_2}` },
          { method: 'GET', path: '/apis/apps/v1/namespaces/akri/daemonsets' },
          {
            method: 'DELETE',
            path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/instances.akri.sh',
          },
        ]
        for (const request of requests) {
          const answer = await agent.request(request).catch((error: unknown) => error)
          expect(
            ApiError.is(answer, 403),
            `${request.method} ${request.path} must be refused`,
          ).toBe(true)
        }
      })

      it('can write the status of a Configuration, and nothing else of it', async () => {
        const url = `/apis/akri.sh/v0/namespaces/${world.namespace}/configurations/akri-udev`
        const before = (await world.get('Configuration', 'akri-udev')) as {
          spec: object
          metadata: object
        }
        await agent.request({
          method: 'PATCH',
          path: `${url}/status`,
          patch: 'merge',
          body: {
            metadata: { labels: { x: 'y' }, finalizers: ['akri.sh/x'] },
            spec: { capacity: 7 },
          },
        })
        const after = (await world.get('Configuration', 'akri-udev')) as {
          spec: object
          metadata: object
        }
        expect(after.spec).toEqual(before.spec)
        expect(after.metadata).not.toHaveProperty('finalizers')
      })
    })

    it('A7 reads Secrets of a namespace after read-secrets is applied there', async () => {
      const secret = { secretKeyRef: { name: 'lab', key: 'token' } }
      await kubectl(
        '-n',
        world.namespace,
        'create',
        'secret',
        'generic',
        'lab',
        '--from-literal=token=x',
      )
      await world.apply(
        JSON.stringify({
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name: 'secret' },
          spec: {
            discoveryHandler: {
              name: 'debugEcho',
              discoveryDetails: 'descriptions: [foo0]',
              discoveryProperties: [{ name: 'TOKEN', valueFrom: secret }],
            },
          },
        }),
      )
      await eventually(async () =>
        expect(await condition('secret', 'Discovering')).toMatchObject({
          status: 'False',
          reason: 'PropertyForbidden',
          message: expect.stringContaining('akri-agent-read-secrets'),
        }),
      )
      await kubectl('-n', world.namespace, 'apply', '-k', path.join(MANIFESTS, 'read-secrets'))
      await eventually(async () => expect(await allocatable('akri.sh/secret')).toEqual([1, 1]))
      await world.remove('Configuration', 'secret')
    })

    it('A2 is replaced on every node without an effect on Pods, Instances and slots', async () => {
      const brokers = async () =>
        (await world.list<InstalledPod>('Pod'))
          .map(({ metadata, status }) => [
            metadata.name,
            metadata.uid,
            status.phase,
            status.containerStatuses[0]?.restartCount,
          ])
          .sort()
      await eventually(async () => expect(await instancesOf('secret')).toEqual([]))
      // Each node has the slot of its Pod and a free slot of each device, after the reservations of
      // earlier Pods have ended.
      const offered = [3, 3]
      await eventually(async () =>
        expect(await allocatable('akri.sh/akri-debug-echo')).toEqual(offered),
      )
      const before = { instances: await identities(), brokers: await brokers() }
      expect(before.brokers.map(([name, , phase]) => [name, phase])).toEqual([
        ['null', 'Running'],
        [`on-${NODE_1}`, 'Running'],
        [`on-${NODE_2}`, 'Running'],
      ])
      const old = (await agents()).map(({ metadata }) => metadata.uid)
      await kubectl('-n', 'akri', 'rollout', 'restart', DAEMON_SET)
      await rolledOut(DAEMON_SET)
      for (const { metadata } of await agents()) expect(old).not.toContain(metadata.uid)
      await eventually(async () =>
        expect(await allocatable('akri.sh/akri-debug-echo')).toEqual(offered),
      )
      expect({ instances: await identities(), brokers: await brokers() }).toEqual(before)
      await world.apply(podYaml('after', { 'akri.sh/akri-debug-echo': 1 }))
      await eventually(async () =>
        expect(await world.logs('after')).toContain('DEBUG_ECHO_DESCRIPTION'),
      )
    })

    it('moves into the network of its nodes with host-network', async () => {
      const before = await identities()
      await kubectl('apply', '-k', path.join(MANIFESTS, 'host-network'))
      await rolledOut(DAEMON_SET)
      for (const pod of await agents()) {
        expect(
          await kubectl(
            'get',
            '--raw',
            `/api/v1/namespaces/akri/pods/${pod.metadata.name}:18080/proxy/readyz`,
          ),
        ).toBe('ok\n')
        expect(pod.spec).toMatchObject({ hostNetwork: true, dnsPolicy: 'ClusterFirstWithHostNet' })
      }
      expect(await identities()).toEqual(before)
    })

    it('leaves only two directories after it is uninstalled', async () => {
      await kubectl('delete', 'configurations.akri.sh', '--all', '-n', world.namespace)
      await eventually(async () => expect(await world.instances()).toEqual([]))
      // Pods keep their directories as long as they run.
      for (const { metadata } of await world.pods()) await world.remove('Pod', metadata.name)
      for (const node of NODES)
        await eventually(async () =>
          expect((await filesBelow(node, NODE_DIRECTORIES[1])).sort()).toEqual([
            'broker-info',
            'checkpoint.json',
          ]),
        )
      // The custom resources stay: other tests have objects of these kinds.
      await kubectl('-n', 'akri', 'create', 'configmap', 'of-others')
      await kubectl('delete', '-k', path.join(MANIFESTS, 'agent'))
      expect(await sockets()).toEqual(socketsBefore)
      const { items } = JSON.parse(await kubectl('get', 'nodes', '-o', 'json')) as {
        items: { status: { allocatable: Record<string, string> } }[]
      }
      // The kubelet still lists the resources, with a quantity of 0.
      for (const { status } of items)
        for (const [name, count] of Object.entries(status.allocatable))
          if (name.startsWith('akri.sh/')) expect([name, count]).toEqual([name, '0'])
      for (const node of NODES) {
        const [handlers = '', state = ''] = NODE_DIRECTORIES
        expect(await filesBelow(node, handlers)).toEqual([])
        expect((await filesBelow(node, state)).sort()).toEqual(['broker-info', 'checkpoint.json'])
        expect(await onNode(node, 'stat', '-c', '%a', `${state}/checkpoint.json`)).toBe('600\n')
      }
      expect(await kubectl('get', 'clusterrole,clusterrolebinding', '-o', 'name')).not.toMatch(
        /akri-agent|\/akri$/m,
      )
      expect(await kubectl('-n', 'akri', 'get', 'configmap', 'of-others', '-o', 'name')).toBe(
        'configmap/of-others\n',
      )
    })
  },
)
