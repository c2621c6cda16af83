import { execFile } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import builtIn from '../../../handlers/built-in.json' with { type: 'json' }
import { CHART } from '../../helm/chart.js'
import { existingDefaults } from '../../helm/existing-defaults.js'
import { missingHelm, runHelm } from '../../helm/programs.js'
import { opcuaClientTree } from '../../images/trees.js'
import { HANDLER_REQUESTS } from '../../support/handler-requests.js'
import { describeUnless } from '../../support/unless.js'
import { IMAGE } from '../support/image.js'
import { kubectl } from '../support/kubectl.js'
import { HOST, missingHost, NODES } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { configurationYaml, eventually, podYaml, World } from '../support/world.js'
import {
  inPod,
  installedPods,
  joinNodes,
  missingForInstallation,
  namespaceGone,
  onEachNode,
  provideImage,
  removeNamespace,
  rolledOut,
  separateNodes,
} from './installation.js'
import { commandBlocks } from './page-commands.js'
import { ReleasedWebhook } from './released-webhook.js'

// Helm 3 merges on the client, Helm 4 applies on the server. With each of them, one release is
// installed, upgraded, rolled back and removed; test/helm renders all else. Each test builds on the
// tests before it.

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../../..')
const CONFIGURATION = 'akri-debug-echo'
const lacks =
  missingHost() ?? missingForInstallation() ?? missingHelm('helm3') ?? missingHelm('helm4')

/** The commands of the README for a cluster, as they are there. The image comes another way. */
const quickStarts = commandBlocks('README.md', 'On a cluster').map((code) => code.split('\n'))
const [quickStart = [], ...otherStarts] = quickStarts.map((commands) =>
  commands.filter((command) => command !== '' && !/^(docker|kind) /.test(command)),
)

it('the README has the same commands for kind and for k3s, except those of the image', () => {
  expect(quickStart).toHaveLength(3)
  expect(otherStarts).toEqual([quickStart])
})

// The webhook writes into an object of the release: Helm and the webhook must not meet at one
// field.
describeUnless(lacks, 'a release of Helm 3', () => {
  let world: World
  let webhook: ReleasedWebhook

  const options = (capacity: number) => {
    const values =
      'agent.enabled=false,controller.enabled=false,debugEcho.configuration.enabled=true'
    const set = `${values},debugEcho.configuration.capacity=${capacity}`
    return ['--namespace', world.namespace, '--skip-crds', '--set', set]
  }
  const capacity = async () =>
    ((await world.get('Configuration', CONFIGURATION)) as { spec: { capacity: number } }).spec
      .capacity
  const release = ['akri', '--namespace'] as const

  beforeAll(async () => {
    await provideImage()
    world = await World.open()
    webhook = new ReleasedWebhook(world, world.namespace)
  })

  afterAll(() =>
    tidyUp(
      // After a test that failed.
      () => runHelm('helm4', 'uninstall', ...release, world.namespace, '--ignore-not-found'),
      async () => world?.close(),
    ),
  )

  it('is upgraded, and keeps its certificates', async () => {
    await runHelm('helm3', 'install', 'akri', CHART, ...options(2))
    await webhook.hasPolicy('Fail')
    const certificates = await webhook.certificates()
    await runHelm('helm3', 'upgrade', 'akri', CHART, ...options(3))
    expect(await capacity()).toBe(3)
    await webhook.hasPolicy('Fail')
    await webhook.isAsked()
    expect(await webhook.certificates()).toEqual(certificates)
  })

  it('returns to the values of before', async () => {
    await runHelm('helm3', 'rollback', 'akri', '1', '--namespace', world.namespace)
    expect(await capacity()).toBe(2)
    await webhook.hasPolicy('Fail')
  })

  it('is upgraded by Helm 4, on the server', async () => {
    await runHelm('helm4', 'upgrade', 'akri', CHART, ...options(3), '--server-side=true')
    expect(await capacity()).toBe(3)
    await webhook.hasPolicy('Fail')
    const registration = await webhook.registration()
    await runHelm('helm4', 'upgrade', 'akri', CHART, ...options(4))
    expect(await capacity()).toBe(4)
    expect(await webhook.registration()).toEqual(registration)
  })

  it('is removed with its Configuration and the certificates', async () => {
    await runHelm('helm3', 'uninstall', ...release, world.namespace)
    expect(await webhook.registration()).toBeUndefined()
    expect(await webhook.certificates()).toBeUndefined()
    expect(await world.get('Configuration', CONFIGURATION)).toBeUndefined()
  })
})

const HANDLERS_APART = ['akri-onvif-discovery', 'akri-opcua-discovery'] as const
const HANDLERS_TOGETHER = 'akri-network-discovery'
const ECHO = 'akri-debug-echo-discovery'
const UDEV = 'akri-udev-discovery'
/** Handlers that fail here: there is no MQTT broker, and the image of tests lacks the binary. */
const FAILING = ['mqtt', 'usb']
/** The file by which a test of the existing system marks devices as offline. */
const AVAILABILITY = '/tmp/debug-echo-availability.txt'
const CLIENT_IMAGE = IMAGE.replace('akri-agent', 'akri-agent-opcua-client')
/** The command of the page that moves the handler to the image with the client. */
const toClientImage = commandBlocks('docs/handlers/opcua.md', 'Properties of a device').find(
  (code) => code.startsWith('helm upgrade '),
)
/** Kinds in which an uninstalled release could leave something. */
const KINDS = [
  'daemonsets,deployments,jobs,pods,services,secrets,serviceaccounts,roles,rolebindings',
  'leases,poddisruptionbudgets,networkpolicies,clusterroles,clusterrolebindings',
  'validatingwebhookconfigurations',
].join()

describeUnless(lacks, 'a release of Helm 4', () => {
  let world: World
  let webhook: ReleasedWebhook
  let directory: string
  let camera: SimulatedCamera

  /** Runs a command of a page. @returns its output */
  const shell = async (command: string) =>
    (await run('bash', ['-ec', `helm() { helm4 "$@"; }\n${command}`], { cwd: root })).stdout
  const configuration = (name: string, handler: string, details: object) => {
    const discoveryHandler = { name: handler, discoveryDetails: JSON.stringify(details) }
    return world.apply(configurationYaml(name, discoveryHandler, { capacity: 2 }))
  }
  const instances = async (name: string) =>
    (await world.instances()).filter(({ spec }) => spec.configurationName === name)
  const capacityOfRelease = () =>
    kubectl('-n', 'akri', 'get', 'akric', CONFIGURATION, '-o', 'jsonpath={.spec.capacity}')
  /** The DaemonSets of network handlers. */
  const networkHandlers = async () =>
    (await kubectl('-n', 'akri', 'get', 'daemonsets', '-o', 'name'))
      .split('\n')
      .map((name) => name.replace(/^daemonset\.apps\/|-daemonset$/g, ''))
      .filter((name) => /onvif|opcua|network/.test(name))
  const areRolledOut = (names: readonly string[]) =>
    Promise.all(names.map((name) => rolledOut(`daemonset/${name}-daemonset`)))
  /** What a move of handlers must not change. */
  const state = async () => ({
    instances: (await world.instances())
      .map(({ metadata, spec }) => [metadata.name, metadata.uid, spec.nodes.toSorted()])
      .sort(),
    phases: await world.phases(),
  })
  /** A camera that appears now: the handler of its node has found the agent. */
  const findsAnother = async () => {
    await using another = await SimulatedCamera.start({ address: HOST })
    const { uuid } = another
    const found = async () =>
      (await world.instances()).filter(
        ({ spec }) => spec.brokerProperties.ONVIF_DEVICE_UUID === uuid,
      )
    await another.hello()
    await eventually(async () => expect(await found()).toHaveLength(1))
    await another.bye()
    await eventually(async () => expect(await found()).toEqual([]))
  }

  beforeAll(async () => {
    await separateNodes()
    await provideImage()
    await provideImage(CLIENT_IMAGE, opcuaClientTree)
    await namespaceGone()
    world = await World.open()
    webhook = new ReleasedWebhook(world, 'akri')
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-values-'))
    await writeFile(path.join(directory, 'values.yaml'), JSON.stringify(existingDefaults))
    camera = await SimulatedCamera.start({ address: HOST })
  })

  afterAll(() =>
    tidyUp(
      async () => world?.close(),
      async () => camera?.[Symbol.asyncDispose](),
      // After a test that failed.
      () => runHelm('helm4', 'uninstall', 'akri', '--namespace', 'akri', '--ignore-not-found'),
      () => removeNamespace(),
      () => joinNodes(),
    ),
  )

  it('is installed by the commands of the README, which show two devices', async () => {
    const outputs: string[] = []
    for (const command of quickStart) outputs.push(await shell(command))
    const listed = outputs.at(-1) ?? ''
    expect(listed).toMatch(/^configuration\.akri\.sh\/akri-debug-echo /m)
    expect(listed.match(/^instance\.akri\.sh\/akri-debug-echo-[0-9a-f]{6} /gm)).toHaveLength(2)
    await webhook.hasPolicy('Fail')
    await webhook.isAsked()
  })

  it('takes the values of the existing chart, which run handlers apart', async () => {
    const [registration, certificates] = [
      await webhook.registration(),
      await webhook.certificates(),
    ]
    const level = 'pod-security.kubernetes.io/enforce=privileged'
    await kubectl('label', 'namespace', 'akri', level)
    const handlers = ['debugEcho', 'udev', 'onvif', 'opcua'].map(
      (name) => `${name}.discovery.enabled=true`,
    )
    const echo = 'debugEcho.configuration.enabled=true,debugEcho.configuration.capacity=3'
    const set = ['agent.allowDebugEcho=true', ...handlers, echo].join()
    const values = ['-f', path.join(directory, 'values.yaml'), '--set', set]
    // No --wait: Helm 4 also waits for the condition Ready of Configurations, which is unknown for
    // a while, because the agents expect the handler that they had in their own process.
    const options = ['--namespace', 'akri', '--skip-crds']
    await runHelm('helm4', 'upgrade', 'akri', CHART, ...options, ...values)
    await areRolledOut(['akri-agent', ECHO, UDEV, HANDLERS_TOGETHER])
    await webhook.hasPolicy('Fail')
    for (const name of ['akri-agent', ECHO, UDEV, HANDLERS_TOGETHER]) {
      const pods = await installedPods(name)
      expect(pods.map(({ status }) => status.phase)).toEqual(onEachNode('Running'))
    }
    expect(await networkHandlers()).toEqual([HANDLERS_TOGETHER])
    expect(await capacityOfRelease()).toBe('3')
    expect(await webhook.registration()).toEqual(registration)
    expect(await webhook.certificates()).toEqual(certificates)
  })

  it('finds devices, and loses those that a test of the existing system marks', async () => {
    await configuration('echo', 'debugEcho', { descriptions: ['bar0', 'bar1'] })
    await configuration('null', 'udev', { udevRules: ['KERNEL=="null"'] })
    await configuration('onvif', 'onvif', {})
    const mark = async (text: string) => {
      for (const pod of await installedPods(ECHO))
        await inPod(pod, `echo ${text} > ${AVAILABILITY}`)
    }
    await eventually(async () => expect(await instances('echo')).toHaveLength(2))
    await mark('OFFLINE')
    await eventually(async () => expect(await instances('echo')).toEqual([]))
    await mark('ONLINE')
    await eventually(async () => expect(await instances('echo')).toHaveLength(2))
    await eventually(async () =>
      expect(await instances('null')).toHaveLength(onEachNode('null').length),
    )
    for (const { metadata } of await installedPods('akri-agent'))
      expect(await kubectl('-n', 'akri', 'logs', metadata.name)).toContain(
        'reclaiming unused slots - start',
      )
    await eventually(async () => expect(await world.allocatables('akri.sh/onvif')).toEqual([1, 1]))
    await world.apply(podYaml('viewer', { 'akri.sh/onvif': 1 }, { node: NODES[0] }))
    await eventually(() => world.running('viewer'))
  })

  it('moves a handler to another image without an effect on Instances and Pods', async () => {
    // All nodes have joined each Instance.
    await eventually(async () => {
      for (const { spec } of await instances('onvif'))
        expect(spec.nodes).toHaveLength(onEachNode('').length)
    })
    const before = await state()
    const command = toClientImage?.trimEnd().replaceAll('registry.example/', 'localhost/')
    const policy = 'webhookConfiguration.failurePolicy=Ignore'
    await shell(`${command} --set ${policy},debugEcho.configuration.capacity=4`)
    expect(await networkHandlers()).toEqual(HANDLERS_APART)
    await areRolledOut(HANDLERS_APART)
    expect(await state()).toEqual(before)
    await findsAnother()
    expect(await state()).toEqual(before)
    // The webhook writes its policy once it runs with the new value.
    await webhook.hasPolicy('Ignore')
    expect(await capacityOfRelease()).toBe('4')
  })

  it('returns to one process of both handlers without an effect on Instances', async () => {
    await eventually(async () => expect(await world.phases()).toEqual({ viewer: 'Running' }))
    const before = await state()
    await runHelm('helm4', 'rollback', 'akri', '2', '--namespace', 'akri')
    expect(await networkHandlers()).toEqual([HANDLERS_TOGETHER])
    await areRolledOut([HANDLERS_TOGETHER])
    expect(await state()).toEqual(before)
    await findsAnother()
    expect(await state()).toEqual(before)
    await webhook.hasPolicy('Fail')
    await webhook.isAsked()
    expect(await capacityOfRelease()).toBe('3')
  })

  it('runs each built-in handler in a DaemonSet, and each answers the agents', async () => {
    const enabled = builtIn.handlers.map(({ name }) => `${name}.discovery.enabled=true`)
    const options = ['--namespace', 'akri', '--skip-crds', '--reuse-values']
    await runHelm('helm4', 'upgrade', 'akri', CHART, ...options, '--set', enabled.join())
    const apart = builtIn.handlers
      .filter(({ network }) => network === undefined)
      .map(({ folder }) => `akri-${path.basename(folder)}-discovery`)
    expect(apart).toEqual(expect.arrayContaining([ECHO, UDEV]))
    expect(await networkHandlers()).toEqual([HANDLERS_TOGETHER])
    await areRolledOut([...apart, HANDLERS_TOGETHER])
    for (const { name } of builtIn.handlers)
      await configuration(`each-${name.toLowerCase()}`, name, HANDLER_REQUESTS[name]?.details ?? {})
    // Cameras and servers of the network can be there: the endpoint of the handler is told anyway,
    // also that of a handler that fails for want of a broker or of the binary for USB.
    for (const { name } of builtIn.handlers)
      await eventually(async () => {
        const found = `each-${name.toLowerCase()}`
        const { message } = (await world.reportedCondition(found, 'HandlerConnected')) ?? {}
        expect(message).toContain(`${name}@/var/lib/akri/${name}.sock`)
        const { status } = (await world.reportedCondition(found, 'Discovering')) ?? {}
        expect(status, name).toMatch(FAILING.includes(name) ? /^(True|False)$/ : /^True$/)
      })
  })

  it('leaves nothing behind, neither Configurations nor what programs wrote', async () => {
    await runHelm('helm4', 'uninstall', 'akri', '--namespace', 'akri', '--wait')
    await eventually(async () => {
      expect(await kubectl('get', 'akric,akrii', '--all-namespaces', '-o', 'name')).toBe('')
      const label = 'app.kubernetes.io/part-of=akri'
      expect(await kubectl('-n', 'akri', 'get', KINDS, '-l', label, '-o', 'name')).toBe('')
      expect(await kubectl('-n', 'akri', 'get', 'leases', '-o', 'name')).toBe('')
    })
  })
})
