import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { ConfigurationStatus, Instance } from '@akrijs/api'
import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import { load } from 'js-yaml'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  DISCOVERY_SERVER,
  SimulatedServer,
} from '../../../handlers/opcua/test-peers/simulated-server.js'
import { clientOfCluster } from '../../cluster/support/client.js'
import { applyCustomResources } from '../../cluster/support/custom-resources.js'
import { MANIFESTS } from '../../manifests/folder.js'
import { PageStream, pageAddress } from '../../standalone/support/page-visitor.js'
import { ClusterPage } from '../../support/cluster-page.js'
import { describeUnless } from '../../support/unless.js'
import { akri } from '../support/akri-command.js'
import { IMAGE } from '../support/image.js'
import { kubectl } from '../support/kubectl.js'
import {
  access,
  filesBelow,
  HOST,
  missingHost,
  NODE_1,
  NODE_2,
  NODES,
  onNode,
} from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import {
  configurationYaml,
  echoYaml,
  eventually,
  type InstanceState,
  podYaml,
  World,
} from '../support/world.js'
import {
  ALL_NODES,
  type InstalledPod,
  inPod,
  installedPods,
  joinNodes,
  makeNamespace,
  missingForInstallation,
  NODE_DIRECTORIES,
  onEachNode,
  provideImage,
  removeNamespace,
  rolledOut,
  separateNodes,
} from './installation.js'
import { missingForPolicies, POLICIES } from './policies.js'

// The system as operators run it: an image, installed from deploy/manifests, with the policies of
// node-restriction if the cluster knows policies. Cameras and OPC UA servers are on the network of
// the nodes. Each test builds on the tests before it.

const lacks = missingHost() ?? missingForInstallation()
const AGENT = 'daemonset/akri-agent-daemonset'
const HANDLERS = ['onvif', 'opcua'] as const
const daemonSet = (name: Handler) => `daemonset/akri-${name}-discovery-daemonset`
/** The sockets of the DaemonSets on each node. */
const SOCKETS = {
  [AGENT]: 'agent-registration.sock',
  ...Object.fromEntries(HANDLERS.map((handler) => [daemonSet(handler), `${handler}.sock`])),
}
const CREDENTIAL = { username: 'viewer', password: 'pass-2' }
const PLUGINS = '/var/lib/kubelet/device-plugins'
/** Events pass, kubelets ask for certificates, and custom resources are looked at apart. */
const ELSEWHERE = /(^|\.)(events|certificatesigningrequests|akri\.sh|metrics\.k8s\.io)(\.|$)/

type Handler = (typeof HANDLERS)[number]

describeUnless(lacks, 'an installation from deploy/manifests', () => {
  let world: World
  let lacksPolicies: string | undefined
  let socketsBefore: string[][]
  let objectsBefore: readonly string[]
  /** What has to be closed at the end. */
  const things: AsyncDisposable[] = []
  let gate: SimulatedCamera
  let locked: SimulatedCamera
  let mixer: SimulatedServer
  let press: SimulatedServer
  /** A server that lists other servers. */
  let directory: SimulatedServer

  const manifests = (folder: string) => path.join(MANIFESTS, folder)
  const agents = () => installedPods('akri-agent')
  const handlersOf = (name: Handler) => installedPods(`akri-${name}-discovery`)
  const condition = async (configuration: string, type: string) =>
    (
      await world.get<{ status?: ConfigurationStatus }>('Configuration', configuration)
    )?.status?.conditions.find((item) => item.type === type)
  const restarts = async () =>
    (await Promise.all(HANDLERS.map(handlersOf)))
      .flat()
      .map(({ status }) => status.containerStatuses[0]?.restartCount)
  /** The answers of Pods at a port. */
  const ask = (pods: readonly InstalledPod[], port: number, url: string) =>
    Promise.all(
      pods.map(({ metadata }) =>
        kubectl(
          'get',
          '--raw',
          `/api/v1/namespaces/akri/pods/${metadata.name}:${port}/proxy/${url}`,
        ),
      ),
    )
  const instancesOf = async (configuration: string) =>
    (await world.instances()).filter(({ spec }) => spec.configurationName === configuration)
  const found = async (key: string, value: string) =>
    (await world.instances()).filter(({ spec }) => spec.brokerProperties[key] === value)
  /** The one Instance of a device that all nodes see. */
  const onlyInstance = (instances: readonly InstanceState[]): InstanceState => {
    const [instance = expect.fail('there is no Instance'), ...others] = instances
    expect(others).toEqual([])
    expect(instance.spec.nodes.toSorted()).toEqual(ALL_NODES)
    expect(instance.spec.shared).toBe(true)
    return instance
  }
  const instanceOf = async ({ uuid }: SimulatedCamera) =>
    onlyInstance(await found('ONVIF_DEVICE_UUID', uuid))
  const serverAt = async (url: string) => onlyInstance(await found('OPCUA_DISCOVERY_URL', url))
  /** What a restart of programs must not change. */
  const state = async () => ({
    instances: (await world.instances())
      .map(({ metadata, spec }) => [
        metadata.name,
        metadata.uid,
        spec.nodes.toSorted(),
        Object.entries(spec.deviceUsage).filter(([, holder]) => holder !== ''),
      ])
      .sort(),
    pods: (await world.list<InstalledPod>('Pod'))
      .map(({ metadata, status }) => [
        metadata.name,
        metadata.uid,
        status.phase,
        status.containerStatuses[0]?.restartCount,
      ])
      .sort(),
  })
  const switchOn = async <T extends AsyncDisposable>(thing: Promise<T>): Promise<T> => {
    things.push(await thing)
    return thing
  }
  const camera = (options = {}) => switchOn(SimulatedCamera.start({ address: HOST, ...options }))
  /** A camera that appears and leaves now: the handlers have found the agents. */
  const findAnother = async () => {
    const another = await camera()
    await another.hello()
    await eventually(() => instanceOf(another))
    await switchOff(another)
    await eventually(async () => expect(await found('ONVIF_DEVICE_UUID', another.uuid)).toEqual([]))
  }
  /**
   * Deletes DaemonSets, and their Pods as soon as their processes have ended: the kubelet can take
   * a minute to forget them.
   */
  const end = async (what: Readonly<Record<string, string>>) => {
    await kubectl('-n', 'akri', 'delete', ...Object.keys(what))
    await eventually(async () => {
      const files = await Promise.all(ALL_NODES.map((node) => filesBelow(node, '/var/lib/akri')))
      for (const socket of Object.values(what)) expect(files.flat()).not.toContain(socket)
    })
    const names = Object.keys(what).map((name) => name.replace(/^daemonset\/|-daemonset$/g, ''))
    const selector = `app.kubernetes.io/name in (${names.join()})`
    await kubectl('-n', 'akri', 'delete', 'pods', '-l', selector, '--force', '--grace-period=0')
  }
  const reported = async () =>
    (await world.list<Instance>('Instance')).flatMap(({ status }) =>
      Object.entries(status?.brokerInfo ?? {}),
    )
  // The kubelet writes its checkpoint at its first allocation.
  const sockets = async () => {
    const files = await Promise.all(ALL_NODES.map((node) => filesBelow(node, PLUGINS)))
    return files.map((names) =>
      names.filter((name) => name !== 'kubelet_internal_checkpoint').sort(),
    )
  }
  /** An example with other discoveryDetails or other parts of its spec. */
  const example = (name: string, details: (text: string) => string, more: object = {}) => {
    const { spec, ...rest } = load(readFileSync(manifests(`examples/${name}`), 'utf8')) as {
      spec: { discoveryHandler: { discoveryDetails: string } }
    }
    const { discoveryHandler } = spec
    const discoveryDetails = details(discoveryHandler.discoveryDetails)
    return JSON.stringify({
      ...rest,
      spec: { ...spec, discoveryHandler: { ...discoveryHandler, discoveryDetails }, ...more },
    })
  }
  const remove = (folder: string) =>
    kubectl('delete', '-k', folder, '--ignore-not-found', '--wait=false')
  /** Neither the policies nor the rights have rejected a request of the agents of now. */
  const hadNoRejectedRequest = async () => {
    for (const text of await ask(await agents(), 8080, 'metrics')) {
      expect(text).toMatch(/^akri_api_requests_total\{.*status="20[01]".*\} [1-9]/m)
      const lines = text.split('\n')
      const refusals = lines.filter((line) => /^akri_api_requests_total\{.*status="403"/.test(line))
      expect(refusals).toEqual([])
    }
  }

  beforeAll(async () => {
    lacksPolicies = await missingForPolicies()
    await separateNodes()
    await provideImage()
    world = await World.open()
    await restoreCustomResources()
    socketsBefore = await sockets()
    await makeNamespace()
    // Of other people, in the same namespace.
    await kubectl('-n', 'akri', 'create', 'configmap', 'of-others')
    objectsBefore = await eventually(async () => {
      const present = await objects()
      expect(present).toContain('configmap/kube-root-ca.crt')
      expect(present).toContain('serviceaccount/default')
      return present
    })
    gate = await camera()
    locked = await camera({ credential: CREDENTIAL })
    mixer = await switchOn(SimulatedServer.start({ name: 'Mixer', host: HOST }))
    press = await switchOn(SimulatedServer.start({ name: 'Press', host: HOST }))
    directory = await switchOn(SimulatedServer.start({ name: 'LDS', host: HOST }))
    directory.applications = [DISCOVERY_SERVER, ...press.applications]
  })

  afterAll(() =>
    tidyUp(
      async () => world?.close(),
      ...things.map((thing) => () => Promise.resolve(thing[Symbol.asyncDispose]())),
      // After a test that failed.
      () => remove(manifests('all-handlers')),
      async () => lacksPolicies === undefined && remove(POLICIES),
      () => restoreCustomResources(),
      () => removeNamespace(),
      () => joinNodes(),
    ),
  )

  it('has handlers that wait for the agent, and are ready once it knows them', async () => {
    for (const handler of HANDLERS) await kubectl('apply', '-k', manifests(`handlers/${handler}`))
    const answers = async (url: string) => [
      ...(await ask(await handlersOf('onvif'), 18081, url)),
      ...(await ask(await handlersOf('opcua'), 8080, url)),
    ]
    const all = <T>(value: T) => HANDLERS.flatMap(() => onEachNode(value))
    await eventually(async () => expect(await answers('healthz')).toEqual(all('ok\n')))
    for (const metrics of await answers('metrics'))
      expect(metrics).not.toMatch(/^akri_handler_registered\{.*\} 1$/m)
    if (lacksPolicies === undefined) await kubectl('apply', '-k', POLICIES)
    await kubectl('apply', '-k', MANIFESTS)
    await Promise.all([AGENT, ...HANDLERS.map(daemonSet)].map(rolledOut))
    expect(await restarts()).toEqual(all(0))
  })

  it('A23 becomes ready on every node, answers its probes, and has metrics', async () => {
    const pods = await agents()
    expect(pods.map(({ spec }) => spec.nodeName).sort()).toEqual(ALL_NODES)
    for (const { spec, status } of pods) {
      expect(spec.containers.map(({ image }) => image)).toEqual([IMAGE])
      expect(status.containerStatuses[0]?.restartCount).toBe(0)
    }
    for (const url of ['healthz', 'readyz'])
      expect(await ask(pods, 8080, url)).toEqual(onEachNode('ok\n'))
    for (const text of await ask(pods, 8080, 'metrics')) expect(text).toMatch(/^akri_/m)
  })

  it('R98 R106 gives the devices of the debugEcho example to Pods on both nodes', async () => {
    await kubectl('-n', world.namespace, 'apply', '-f', manifests('examples/debug-echo.yaml'))
    for (const name of ['akri-debug-echo', 'akri-debug-echo-8120fe', 'akri-debug-echo-a19705'])
      await eventually(async () =>
        expect(await world.allocatables(`akri.sh/${name}`)).toEqual([2, 2]),
      )
    await eventually(async () =>
      expect((await world.instances()).map(({ spec }) => spec.nodes.toSorted())).toEqual([
        ALL_NODES,
        ALL_NODES,
      ]),
    )
    for (const node of NODES)
      await world.apply(podYaml(`on-${node}`, { 'akri.sh/akri-debug-echo': 1 }, { node }))
    for (const node of NODES)
      await eventually(async () =>
        expect(await world.logs(`on-${node}`)).toMatch(
          /^DEBUG_ECHO_DESCRIPTION_(8120FE=foo0|A19705=foo1)$/m,
        ),
      )
    expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:0:${NODE_2}`])
  })

  it('shows the program akri who has which slot, and why a Pod waits', async () => {
    const show = async (...args: string[]) =>
      (await akri(...args, '-n', world.namespace)).stdout.trimEnd().split('\n')
    await eventually(async () => {
      const users = (await show('slots')).map((line) => line.split(/ +/).slice(1, 3))
      for (const node of NODES)
        expect(users).toContainEqual([node, `${world.namespace}/on-${node}`])
    })
    await world.apply(podYaml('waits', { 'akri.sh/akri-debug-echo': 9 }))
    await eventually(async () => {
      const lines = await show('explain', 'pod', 'waits')
      expect(lines[0]).toMatch(/ Pending on no node yet: Unschedulable: .*Insufficient akri\.sh/)
      expect(lines.at(-1)).toMatch(
        /ask for at most \d: no node offers 9 of akri\.sh\/akri-debug-echo$/,
      )
    })
    const lines = await show('explain', 'configuration', 'akri-debug-echo')
    for (const node of NODES)
      expect(lines).toContainEqual(expect.stringMatching(`^${node} +running( +yes){3} +2 +\\d$`))
    expect(lines.at(-1)).toBe('Next step: akri explain pod waits')
    await world.remove('Pod', 'waits')
  })

  it('has a page of akri ui with the Pod that uses a slot', async () => {
    const program = new ClusterPage(['-n', world.namespace])
    try {
      const stream = await PageStream.open(await pageAddress(program))
      const user = (node: string) => `:"${world.namespace}/on-${node}"`
      await eventually(() => {
        expect(stream.text).toContain('event: synced')
        for (const node of NODES) expect(stream.text).toContain(user(node))
      })
      // The rights of the kubeconfig are those of an administrator.
      expect(stream.text).toContain('"messages":[],"unread":[]')
      stream.close()
    } finally {
      await program.stop()
    }
  })

  it('R93 leaves akri doctor no problem to find', async () => {
    await rolledOut('deployment/akri-controller-deployment')
    const { stdout } = await akri('doctor')
    const states = stdout.split('\n').map((line) => line.split(' ')[0])
    expect(new Set(states), stdout).toEqual(new Set(['STATE', 'ok', '']))
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
    const labelled = async (kinds: string) => {
      const selector = ['-l', 'controller=akri.sh', '-o', 'name']
      const names = await kubectl('-n', world.namespace, 'get', kinds, ...selector)
      return names
        .split('\n')
        .filter(Boolean)
        .map((name) => name.split('/')[0])
        .sort()
    }
    await eventually(async () => {
      expect(await labelled('pods,jobs,deployments')).toEqual([
        'deployment.apps',
        'job.batch',
        // Two of Pods, one each of the Job and of the Deployment.
        ...['pod', 'pod', 'pod', 'pod'],
      ])
      expect((await world.list('Service')).length).toBe(2)
      const [instance] = await instancesOf('jobs')
      expect(instance).toMatchObject({ status: { brokerJob: { name: 'jobs-8120fe-1-job' } } })
    })
    for (const name of ['pods', 'jobs', 'pool']) await world.remove('Configuration', name)
    await eventually(async () =>
      expect(await labelled('pods,jobs,deployments,services')).toEqual([]),
    )
  })

  it('R68 R69 publishes reports of an unprivileged Pod, and leaves none behind', async () => {
    const script =
      'cd "$AKRI_BROKER_INFO_DIRECTORY" && echo 2.4.1 >firmware-version; exec sleep 100000'
    const resources = { 'akri.sh/akri-debug-echo': 1 }
    const pod = JSON.parse(
      podYaml('reporter', resources, { node: NODE_1, script, graceSeconds: 0 }),
    )
    pod.spec.securityContext = { runAsUser: 4711, runAsGroup: 4711 }
    await world.apply(JSON.stringify(pod))
    await eventually(async () =>
      expect(await reported()).toEqual([['firmware-version', '2.4.1\n']]),
    )
    await world.remove('Pod', 'reporter')
    await eventually(async () => expect(await reported()).toEqual([]))
    await eventually(async () =>
      expect(await filesBelow(NODE_1, '/var/lib/akri-agent')).not.toContainEqual(
        expect.stringContaining('firmware'),
      ),
    )
  })

  it('R68 bounds what hidden writers fill, and keeps reports while it is replaced', async () => {
    const stat = async (...options: readonly string[]) =>
      (await onNode(NODE_1, 'stat', ...options, '/var/lib/akri-agent/broker-info')).trim()
    /** With the number of free blocks. */
    const fileSystem = () => stat('-f', '-c', '%T %s*%b %f')
    const before = await stat('-c', '%d')
    const pod = (name: string, script: string) =>
      podYaml(name, { 'akri.sh/akri-debug-echo': 1 }, { node: NODE_1, script, graceSeconds: 0 })
    const enter = 'cd "$AKRI_BROKER_INFO_DIRECTORY"'
    const hides = `${enter}; mkdir a; exec 3>a/x; rm -r a; cat /dev/zero >&3; exec sleep 100000`
    await eventually(async () => {
      // On a slow machine the agent can see the directory in between, and has the Pod ended.
      const isGone = (await world.get('Pod', 'hidden')) === undefined
      if (isGone) await world.apply(pod('hidden', hides))
      expect(await fileSystem()).toBe('tmpfs 4096*16384 0')
    })
    const counts = 'i=0; while true; do i=$((i+1)); echo $i >.n && mv .n n; sleep 1; done'
    await world.apply(pod('beside', `${enter}; ${counts}`))
    await eventually(async () => expect(await world.phases()).toMatchObject({ beside: 'Running' }))
    await world.remove('Pod', 'hidden')
    const count = async () => Number(new Map(await reported()).get('n') ?? 0)
    const first = await eventually(async () => {
      expect(await count()).toBeGreaterThan(0)
      return count()
    })
    const [agent] = (await agents()).filter(({ spec }) => spec.nodeName === NODE_1)
    expect(agent?.status.containerStatuses[0]?.restartCount).toBe(0)
    await kubectl('-n', 'akri', 'delete', 'pod', agent?.metadata.name ?? '')
    await rolledOut(AGENT)
    expect(await stat('-c', '%d')).toBe(before)
    await eventually(async () => expect(await count()).toBeGreaterThan(first))
    await world.remove('Pod', 'beside')
    await eventually(async () => expect(await reported()).toEqual([]))
  })

  it('R3 finds devices of its node by udev rules', async () => {
    await kubectl('-n', world.namespace, 'apply', '-f', manifests('examples/udev.yaml'))
    await world.apply(
      configurationYaml('nulls', {
        name: 'udev',
        discoveryDetails: 'udevRules: [KERNEL=="null"]',
      }),
    )
    await eventually(async () => {
      for (const type of ['Discovering', 'HandlerConnected'])
        expect(await condition('akri-udev', type)).toMatchObject({ status: 'True' })
      expect(await world.get('Configuration', 'akri-udev')).toMatchObject({
        status: { nodeCounts: { reporting: ALL_NODES.length, silent: 0 } },
      })
      expect(await world.allocatables('akri.sh/nulls')).toEqual([1, 1])
    })
    const nodes = (await instancesOf('nulls')).flatMap(({ spec }) => spec.nodes)
    expect(nodes.sort()).toEqual(ALL_NODES)
    const script = 'ls -l $UDEV_DEVNODE; exec sleep 100000'
    await world.apply(podYaml('null', { 'akri.sh/nulls': 1 }, { script }))
    await eventually(async () =>
      expect(await world.logs('null')).toMatch(/^crw.* 1, +3 .*\/dev\/null$/),
    )
  })

  it.each<[string, () => Promise<InstalledPod[]>, readonly string[]]>([
    ['agents', agents, ['/', '/app', '/tmp', '/run/udev', '/var/lib/kubelet/pod-resources']],
    ['ONVIF handlers', () => handlersOf('onvif'), ['/', '/app', '/tmp']],
    ['OPC UA handlers', () => handlersOf('opcua'), ['/', '/app', '/tmp']],
  ])('runs %s with the least rights, read-only, in their memory requests', async (...row) => {
    const [name, podsOf, directories] = row
    const touch = directories.map((each) => `touch ${each}/x 2>&1 || echo refused`).join('; ')
    for (const pod of await podsOf()) {
      const text = await inPod(pod, `cat /proc/1/status; ${touch}; ls /var/run/secrets 2>&1`)
        // Without an account there is no such directory.
        .catch((error: unknown) => String(Reflect.get(error as object, 'stdout')))
      // DAC_OVERRIDE and FOWNER (capabilities(7)), to remove what other users leave.
      const most = name === 'agents' ? 'a' : '0'
      for (const set of ['CapPrm', 'CapEff', 'CapBnd'])
        expect(text).toMatch(new RegExp(`^${set}:\\t0+${most}$`, 'm'))
      for (const set of ['CapInh', 'CapAmb'])
        expect(text).toMatch(new RegExp(`^${set}:\\t0+$`, 'm'))
      expect(text).toMatch(/^NoNewPrivs:\t1$/m)
      expect(text).toMatch(/^Seccomp:\t2$/m)
      expect(text.match(/Read-only file system\nrefused$/gm)).toHaveLength(directories.length)
      expect(/secrets.*No such file/.test(text)).toBe(name !== 'agents')
      const [{ resources } = expect.fail('no container')] = pod.spec.containers
      const requested = /^(\d+)Mi$/.exec(resources.requests.memory)?.[1]
      const rss = Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1]) / 1024
      expect(rss, `RSS on ${pod.spec.nodeName} in MiB`).toBeLessThan(Number(requested))
    }
  })

  it('A7 reads Secrets of a namespace after read-secrets is applied there', async () => {
    await world.apply(secret({ username: CREDENTIAL.username, password: 'pass-1' }))
    const apply = (...what: string[]) => kubectl('-n', world.namespace, 'apply', ...what)
    await apply('-f', manifests('examples/onvif-credentials.yaml'))
    await eventually(async () =>
      expect(await condition('akri-onvif', 'Discovering')).toMatchObject({
        status: 'False',
        reason: 'PropertyForbidden',
        message: expect.stringContaining('akri-agent-read-secrets'),
      }),
    )
    await apply('-k', manifests('read-secrets'))
    await eventually(async () =>
      expect(await condition('akri-onvif', 'Discovering')).toMatchObject({ status: 'True' }),
    )
  })

  it('R97 R98 makes one Instance of each camera for all nodes, also a locked one', async () => {
    await eventually(async () => {
      expect((await instanceOf(gate)).spec.brokerProperties).toMatchObject({
        ONVIF_DEVICE_SERVICE_URL: gate.service.url,
        ONVIF_DEVICE_IP_ADDRESS: HOST,
      })
      expect((await instanceOf(locked)).spec.brokerProperties).toMatchObject({
        ONVIF_DEVICE_AUTHENTICATION: 'refused',
      })
    })
    expect(await condition('akri-onvif', 'HandlerConnected')).toMatchObject({ status: 'True' })
  })

  it('R102 offers OPC UA servers, also from a discovery server, to brokers', async () => {
    const container = {
      name: 'b',
      image: access.shellImage,
      command: ['/bin/sh', '-c', 'env; exec sleep 100000'],
      resources: { limits: { '{{PLACEHOLDER}}': '1' } },
    }
    const brokerPodSpec = { terminationGracePeriodSeconds: 0, containers: [container] }
    const urls = [mixer.url, directory.url].map((url) => `\n            - ${url}`).join('')
    await world.apply(
      example('opcua.yaml', (text) => text.replace(/\n +- opc\.tcp:\S+/, urls), {
        brokerSpec: { brokerPodSpec },
      }),
    )
    for (const { url } of [mixer, press]) {
      const { metadata, spec } = await eventually(() => serverAt(url))
      expect(spec.brokerProperties).toMatchObject({ OPCUA_SECURITY_POLICIES: 'None' })
      await eventually(async () => {
        const broker = (await world.pods()).find(({ metadata: { name } }) =>
          name.includes(metadata.name),
        )
        expect((await world.logs(broker?.metadata.name ?? '')).split('\n')).toContain(
          `OPCUA_DISCOVERY_URL=${url}`,
        )
      })
    }
  })

  it('A2 is replaced on every node without an effect on Pods, Instances and slots', async () => {
    await eventually(async () =>
      expect(new Set(Object.values(await world.phases()))).toEqual(new Set(['Running'])),
    )
    // Each node has the slot of its Pod, and a slot of each device with free slots, after the
    // reservations of earlier Pods have ended.
    const offered = () =>
      eventually(async () => {
        const free = (await instancesOf('akri-debug-echo')).filter(({ spec }) =>
          Object.values(spec.deviceUsage).includes(''),
        ).length
        expect(free).toBeGreaterThan(0)
        expect(await world.allocatables('akri.sh/akri-debug-echo')).toEqual([1 + free, 1 + free])
      })
    await offered()
    const before = await state()
    await end(SOCKETS)
    await kubectl('apply', '-k', manifests('agent'))
    await kubectl('apply', '-k', manifests('handlers/onvif'))
    await kubectl('apply', '-k', manifests('handlers/opcua-host-network'))
    await Promise.all([AGENT, ...HANDLERS.map(daemonSet)].map(rolledOut))
    await offered()
    await findAnother()
    expect(await state()).toEqual(before)
    await world.apply(podYaml('after', { 'akri.sh/akri-debug-echo': 1 }, { graceSeconds: 0 }))
    await eventually(async () =>
      expect(await world.logs('after')).toContain('DEBUG_ECHO_DESCRIPTION'),
    )
    await world.remove('Pod', 'after')
    await eventually(async () => expect(await world.get('Pod', 'after')).toBeUndefined())
    await hadNoRejectedRequest()
  })

  it('finds the same devices from within the agent, in its network, by all-handlers', async () => {
    const before = await state()
    await end(SOCKETS)
    await kubectl('apply', '-k', manifests('all-handlers'))
    await rolledOut(AGENT)
    const pods = await agents()
    expect(await ask(pods, 18080, 'readyz')).toEqual(onEachNode('ok\n'))
    for (const { spec } of pods)
      expect(spec).toMatchObject({ hostNetwork: true, dnsPolicy: 'ClusterFirstWithHostNet' })
    const another = await camera()
    await another.hello()
    await eventually(() => instanceOf(another))
    // The agent keeps the devices of the containers for a while, as after any loss of a handler.
    // So no device vanishes yet.
    const { instances, pods: now } = await state()
    expect(instances).toEqual(expect.arrayContaining(before.instances))
    expect(now).toEqual(before.pods)
    const mill = await switchOn(SimulatedServer.start({ name: 'Mill', host: HOST }))
    directory.applications = [DISCOVERY_SERVER, ...press.applications, ...mill.applications]
    await eventually(() => serverAt(mill.url))
  })

  it('leaves two directories on each node, and nothing in the cluster', async () => {
    await kubectl('delete', 'configurations.akri.sh', '--all', '-n', world.namespace)
    await eventually(async () => expect(await world.instances()).toEqual([]))
    // Pods keep their directories as long as they run.
    for (const { metadata } of await world.pods()) await world.remove('Pod', metadata.name)
    const [handlers, state] = NODE_DIRECTORIES
    const left = (node: string) => filesBelow(node, state).then((files) => files.sort())
    for (const node of ALL_NODES)
      await eventually(async () =>
        expect(await left(node)).toEqual(['broker-info', 'checkpoint.json']),
      )
    if (lacksPolicies === undefined) await kubectl('delete', '-k', POLICIES)
    await kubectl('delete', '-k', manifests('all-handlers'), '--timeout=90s')
    await eventually(async () => expect(await objects()).toEqual(objectsBefore))
    const resources = await kubectl('get', 'customresourcedefinitions', '-o', 'name')
    expect(resources).not.toContain('akri.sh')
    await restoreCustomResources()
    expect(await sockets()).toEqual(socketsBefore)
    const { items } = JSON.parse(await kubectl('get', 'nodes', '-o', 'json')) as {
      items: { status: { allocatable: Record<string, string> } }[]
    }
    // The kubelet still lists the resources, with a quantity of 0.
    for (const { status } of items)
      for (const [name, count] of Object.entries(status.allocatable))
        if (name.startsWith('akri.sh/')) expect([name, count]).toEqual([name, '0'])
    for (const node of ALL_NODES) {
      expect(await filesBelow(node, handlers)).toEqual([])
      expect(await left(node)).toEqual(['broker-info', 'checkpoint.json'])
      expect(await onNode(node, 'stat', '-c', '%a', `${state}/checkpoint.json`)).toBe('600\n')
    }
  })
})

async function switchOff(camera: SimulatedCamera): Promise<void> {
  await camera.bye()
  await camera.close()
}

function secret(stringData: Readonly<Record<string, string>>): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'onvif-cameras' },
    stringData,
  })
}

async function restoreCustomResources(): Promise<void> {
  const client = await clientOfCluster()
  await applyCustomResources(client).finally(() => client.close())
}

/** All objects in the namespace, and all of the cluster without namespaces of tests. */
async function objects(): Promise<readonly string[]> {
  const names = [true, false].map(async (isNamespaced) => {
    const options = ['--verbs=list', `--namespaced=${isNamespaced}`, '-o', 'name']
    const kinds = (await kubectl('api-resources', ...options))
      .split('\n')
      .filter((kind) => kind !== '' && !ELSEWHERE.test(kind))
    return (await kubectl('-n', 'akri', 'get', kinds.join(), '-o', 'name'))
      .split('\n')
      .filter((name) => name !== '' && !/\.akri\.sh$|^namespace\/akri-/.test(name))
  })
  return (await Promise.all(names)).flat().toSorted()
}
