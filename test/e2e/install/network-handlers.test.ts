import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { ConfigurationStatus } from '@akrijs/api'
import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import { Bonjour } from 'bonjour-service'
import { load } from 'js-yaml'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  DISCOVERY_SERVER,
  SimulatedServer,
} from '../../../handlers/opcua/test-peers/simulated-server.js'
import { kubectl } from '../support/kubectl.js'
import { access, filesBelow, HOST, missingHost, NODES, onNode } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, type InstanceState, podYaml, World } from '../support/world.js'
import {
  inPod,
  installedPods,
  joinNodes,
  MANIFESTS,
  makeNamespace,
  missingForInstallation,
  provideImage,
  removeNamespace,
  rolledOut,
  separateNodes,
} from './installation.js'

// ONVIF cameras and OPC UA servers on the network of the nodes. Handlers from deploy/manifests find
// them: first in containers of their own, then in one process, then in the agent. Each test builds
// on the tests before it.

const lacks = missingHost() ?? missingForInstallation()
const AGENT = 'daemonset/akri-agent-daemonset'
const HANDLERS = ['onvif', 'opcua'] as const
const daemonSet = (name: DaemonSet) => `daemonset/akri-${name}-discovery-daemonset`
/** The sockets of the DaemonSets on each node. */
const SOCKETS = {
  [AGENT]: 'agent-registration.sock',
  ...Object.fromEntries(HANDLERS.map((handler) => [daemonSet(handler), `${handler}.sock`])),
}
/**
 * The limit between an announcement on the network and its Instance, in milliseconds, on a busy
 * machine.
 */
const SOON = 5000
const CREDENTIAL = { username: 'viewer', password: 'pass-2' }

type Handler = (typeof HANDLERS)[number]
type DaemonSet = Handler | 'network'

describe.skipIf(lacks !== undefined)(
  `network handlers, installed from deploy/manifests${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let world: World
    /** What has to be closed at the end. */
    const things: AsyncDisposable[] = []
    let gate: SimulatedCamera
    let locked: SimulatedCamera
    let mixer: SimulatedServer
    let press: SimulatedServer
    /** A server that lists other servers. */
    let directory: SimulatedServer

    const manifests = (folder: string) => path.join(MANIFESTS, folder)
    const pods = (name: DaemonSet) => installedPods(`akri-${name}-discovery`)
    /**
     * Deletes DaemonSets, and their Pods as soon as their processes have ended: the kubelet can
     * take a minute to forget them.
     */
    const end = async (what: Readonly<Record<string, string>>) => {
      await kubectl('-n', 'akri', 'delete', ...Object.keys(what))
      await eventually(async () => {
        for (const node of NODES)
          for (const socket of Object.values(what))
            expect(await filesBelow(node, '/var/lib/akri')).not.toContain(socket)
      })
      const names = Object.keys(what).map((name) => name.replace(/^daemonset\/|-daemonset$/g, ''))
      const selector = `app.kubernetes.io/name in (${names.join()})`
      await kubectl('-n', 'akri', 'delete', 'pods', '-l', selector, '--force', '--grace-period=0')
    }
    const restarts = async () =>
      (await Promise.all(HANDLERS.map(pods)))
        .flat()
        .map(({ status }) => status.containerStatuses[0]?.restartCount)
    const ask = async (name: DaemonSet, port: number, url: string) =>
      Promise.all(
        (await pods(name)).map(({ metadata }) =>
          kubectl(
            'get',
            '--raw',
            `/api/v1/namespaces/akri/pods/${metadata.name}:${port}/proxy/${url}`,
          ),
        ),
      )
    /** Both handlers in the one process of each node. */
    const areRegistered = async () => {
      for (const metrics of await ask('network', 18081, 'metrics'))
        for (const handler of HANDLERS)
          expect(metrics).toContain(`akri_handler_registered{handler="${handler}"} 1`)
    }
    const switchOn = async <T extends AsyncDisposable>(thing: Promise<T>): Promise<T> => {
      things.push(await thing)
      return thing
    }
    const camera = (options = {}) => switchOn(SimulatedCamera.start({ address: HOST, ...options }))
    const found = async (key: string, value: string) =>
      (await world.instances()).filter(({ spec }) => spec.brokerProperties[key] === value)
    /** The one Instance of a camera that both nodes see. */
    const instanceOf = async ({ uuid }: SimulatedCamera): Promise<InstanceState> =>
      onlyInstance(await found('ONVIF_DEVICE_UUID', uuid))
    const serverAt = async (url: string): Promise<InstanceState> =>
      onlyInstance(await found('OPCUA_DISCOVERY_URL', url))
    const onlyInstance = (instances: readonly InstanceState[]): InstanceState => {
      const [instance = expect.fail('there is no Instance'), ...others] = instances
      expect(others).toEqual([])
      expect(instance.spec.nodes.toSorted()).toEqual([...NODES])
      expect(instance.spec.shared).toBe(true)
      return instance
    }
    const identities = async () =>
      (await world.instances()).map(({ metadata }) => `${metadata.name} ${metadata.uid}`).sort()
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

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
      world = await World.open()
      gate = await camera()
      locked = await camera({ credential: CREDENTIAL })
      mixer = await switchOn(SimulatedServer.start({ name: 'Mixer', host: HOST }))
      press = await switchOn(SimulatedServer.start({ name: 'Press', host: HOST }))
      directory = await switchOn(SimulatedServer.start({ name: 'LDS', host: HOST }))
      directory.applications = [DISCOVERY_SERVER, ...press.applications]
    })

    afterAll(async () => {
      await tidyUp(
        async () => world?.close(),
        ...things.map((thing) => () => Promise.resolve(thing[Symbol.asyncDispose]())),
        ...['onvif', 'opcua', 'network'].map(
          (folder) => () => remove(manifests(`handlers/${folder}`)),
        ),
        ...['controller', 'agent'].map((folder) => () => remove(manifests(folder))),
        () => kubectl('-n', 'akri', 'delete', 'pods', '--all', '--force', '--grace-period=0'),
        () => removeNamespace(),
        () => joinNodes(),
      )
    })

    it('wait for the agent if they start first, and are ready once it knows them', async () => {
      await makeNamespace()
      for (const handler of HANDLERS) await kubectl('apply', '-k', manifests(`handlers/${handler}`))
      await eventually(async () => {
        expect(await ask('onvif', 18081, 'healthz')).toEqual(['ok\n', 'ok\n'])
        expect(await ask('opcua', 8080, 'healthz')).toEqual(['ok\n', 'ok\n'])
      })
      for (const metrics of [
        ...(await ask('onvif', 18081, 'metrics')),
        ...(await ask('opcua', 8080, 'metrics')),
      ])
        expect(metrics).not.toMatch(/^akri_handler_registered\{.*\} 1$/m)
      await kubectl('apply', '-k', MANIFESTS)
      for (const what of [AGENT, ...HANDLERS.map(daemonSet)]) await rolledOut(what)
      expect(await restarts()).toEqual([0, 0, 0, 0])
    })

    it('R97 R98 make one Instance of each camera for both nodes, also a locked one', async () => {
      await kubectl('-n', world.namespace, 'apply', '-k', manifests('read-secrets'))
      await world.apply(secret({ username: CREDENTIAL.username, password: 'pass-1' }))
      await kubectl(
        '-n',
        world.namespace,
        'apply',
        '-f',
        manifests('examples/onvif-credentials.yaml'),
      )
      await eventually(async () => {
        expect((await instanceOf(gate)).spec.brokerProperties).toMatchObject({
          ONVIF_DEVICE_SERVICE_URL: gate.service.url,
          ONVIF_DEVICE_IP_ADDRESS: HOST,
        })
        expect((await instanceOf(locked)).spec.brokerProperties).toMatchObject({
          ONVIF_DEVICE_AUTHENTICATION: 'refused',
        })
      })
      const { status } =
        (await world.get<{ status: ConfigurationStatus }>('Configuration', 'akri-onvif')) ??
        expect.fail('gone')
      expect(status.conditions).toContainEqual(
        expect.objectContaining({ type: 'HandlerConnected', status: 'True' }),
      )
    })

    it('R1 R2 R106 give cameras to Pods, by the Configuration and by the Instance', async () => {
      const { metadata } = await instanceOf(gate)
      await eventually(async () => {
        expect(await world.allocatables('akri.sh/akri-onvif')).toEqual([2, 2])
        expect(await world.allocatables(`akri.sh/${metadata.name}`)).toEqual([1, 1])
      })
      await world.apply(
        podYaml('this-one', { [`akri.sh/${metadata.name}`]: 1 }, { node: NODES[0] }),
      )
      await eventually(async () =>
        expect((await world.logs('this-one')).split('\n')).toContain(
          `ONVIF_DEVICE_SERVICE_URL=${gate.service.url}`,
        ),
      )
      await world.apply(podYaml('any', { 'akri.sh/akri-onvif': 1 }, { node: NODES[1] }))
      await eventually(async () =>
        expect((await world.logs('any')).split('\n')).toContain(
          `ONVIF_DEVICE_SERVICE_URL=${locked.service.url}`,
        ),
      )
    })

    it('use a changed Secret without a restart', async () => {
      const { metadata } = await instanceOf(locked)
      await world.apply(secret(CREDENTIAL))
      await eventually(async () => {
        const { metadata: now, spec } = await instanceOf(locked)
        expect(spec.brokerProperties).toMatchObject({
          ONVIF_DEVICE_AUTHENTICATION: 'accepted',
          ONVIF_DEVICE_PROFILE_0_STREAM_URI: expect.stringContaining('rtsp://'),
        })
        expect(now.uid).toBe(metadata.uid)
      })
      expect(await restarts()).toEqual([0, 0, 0, 0])
    })

    it('R46 R47 remove a camera after its Bye, and offer it after its Hello', async () => {
      const leaving = await camera()
      await leaving.hello()
      await eventually(() => instanceOf(leaving), SOON)
      await switchOff(leaving)
      await eventually(
        async () => expect(await found('ONVIF_DEVICE_UUID', leaving.uuid)).toEqual([]),
        SOON,
      )
      const back = await camera({ uuid: leaving.uuid })
      await back.hello()
      await eventually(() => instanceOf(back), SOON)
      await switchOff(back)
    })

    it('R102 offer OPC UA servers, also from a discovery server, to brokers', async () => {
      const container = { name: 'b', image: access.shellImage }
      const brokerPodSpec = {
        terminationGracePeriodSeconds: 0,
        containers: [
          {
            ...container,
            command: ['/bin/sh', '-c', 'env; exec sleep 100000'],
            resources: { limits: { '{{PLACEHOLDER}}': '1' } },
          },
        ],
      }
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

    it('run without capabilities, read-only, within their memory requests', async () => {
      for (const handler of HANDLERS) {
        const requested = /memory: (\d+)Mi/.exec(
          await kubectl('-n', 'akri', 'get', daemonSet(handler), '-o', 'yaml'),
        )?.[1]
        for (const pod of await pods(handler)) {
          const status = await inPod(pod, 'cat /proc/1/status')
          for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
            expect(status).toMatch(new RegExp(`^${set}:\\t0+$`, 'm'))
          await expect(inPod(pod, 'touch /tmp/x')).rejects.toThrow('Read-only file system')
          await expect(inPod(pod, 'ls /var/run/secrets')).rejects.toThrow('No such file')
          const rss = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
          expect(rss, `RSS of ${handler} on ${pod.spec.nodeName} in MiB`).toBeLessThan(
            Number(requested),
          )
        }
      }
    })

    it('A2 are replaced, as is the agent, without an effect on Instances and Pods', async () => {
      const before = { instances: await identities(), phases: await world.phases() }
      await end(SOCKETS)
      await kubectl('apply', '-k', manifests('agent'))
      await rolledOut(AGENT)
      for (const folder of ['handlers/onvif', 'handlers/opcua-host-network'])
        await kubectl('apply', '-k', manifests(folder))
      for (const handler of HANDLERS) await rolledOut(daemonSet(handler))
      const another = await camera()
      await another.hello()
      await eventually(() => instanceOf(another))
      await switchOff(another)
      await eventually(async () =>
        expect(await found('ONVIF_DEVICE_UUID', another.uuid)).toEqual([]),
      )
      expect({ instances: await identities(), phases: await world.phases() }).toEqual(before)
    })

    it('find OPC UA servers that announce themselves, in the network of the nodes', async () => {
      const announced = await switchOn(SimulatedServer.start({ name: 'Kiln', host: HOST }))
      const multicast = { interface: HOST, bind: '0.0.0.0' }
      const bonjour = new Bonjour({ port: 5353, ...multicast })
      try {
        bonjour.publish({
          name: 'Kiln',
          type: 'opcua-tcp',
          port: announced.port,
          host: 'kiln.local',
          txt: { path: '/', caps: 'DA' },
        })
        await world.apply(
          configuration('announced', {
            name: 'opcua',
            discoveryDetails: 'opcuaDiscoveryMethod: { mdns: {} }',
          }),
        )
        const { spec } = await eventually(() => serverAt(`opc.tcp://kiln.local:${announced.port}`))
        expect(spec.brokerProperties).toMatchObject({ OPCUA_APPLICATION_NAME: 'Kiln' })
      } finally {
        await new Promise<void>((resolve) =>
          bonjour.unpublishAll(() => bonjour.destroy(() => resolve())),
        )
        await world.remove('Configuration', 'announced')
      }
      await eventually(async () =>
        expect(await found('OPCUA_APPLICATION_NAME', 'Kiln')).toEqual([]),
      )
    })

    it('move into one process, as Helm moves them, without an effect on Instances', async () => {
      const before = { instances: await identities(), phases: await world.phases() }
      // Helm creates the new DaemonSet before it deletes the old ones.
      await kubectl('apply', '-k', manifests('handlers/network'))
      await kubectl('-n', 'akri', 'delete', ...HANDLERS.map(daemonSet))
      await rolledOut(daemonSet('network'))
      expect({ instances: await identities(), phases: await world.phases() }).toEqual(before)
      await areRegistered()
    })

    it('come back after their process was killed, without an effect on Instances', async () => {
      const before = { instances: await identities(), phases: await world.phases() }
      for (const { spec, status } of await pods('network')) {
        const id = status.containerStatuses[0]?.containerID.replace('containerd://', '') ?? ''
        await onNode(spec.nodeName, 'ctr', '-n', 'k8s.io', 'tasks', 'kill', '-s', 'SIGKILL', id)
      }
      await eventually(async () =>
        expect(
          (await pods('network')).map(({ status }) => status.containerStatuses[0]?.restartCount),
        ).toEqual([1, 1]),
      )
      await rolledOut(daemonSet('network'))
      const another = await camera()
      await another.hello()
      await eventually(() => instanceOf(another))
      await switchOff(another)
      await eventually(async () =>
        expect(await found('ONVIF_DEVICE_UUID', another.uuid)).toEqual([]),
      )
      await areRegistered()
      expect({ instances: await identities(), phases: await world.phases() }).toEqual(before)
    })

    it('find the same devices from within the agent, with all-handlers', async () => {
      const before = { instances: await identities(), phases: await world.phases() }
      await end({ [AGENT]: 'agent-registration.sock', [daemonSet('network')]: 'onvif.sock' })
      await kubectl('apply', '-k', manifests('all-handlers'))
      await rolledOut(AGENT)
      const another = await camera()
      await another.hello()
      await eventually(() => instanceOf(another))
      // The agent keeps the devices of the containers for a while, as after any loss of a handler.
      // So no device vanishes yet.
      expect(await identities()).toEqual(expect.arrayContaining(before.instances))
      expect(await world.phases()).toEqual(before.phases)
      const mill = await switchOn(SimulatedServer.start({ name: 'Mill', host: HOST }))
      directory.applications = [DISCOVERY_SERVER, ...press.applications, ...mill.applications]
      await eventually(() => serverAt(mill.url))
    })
  },
)

async function switchOff(camera: SimulatedCamera): Promise<void> {
  await camera.bye()
  await camera.close()
}

function configuration(name: string, discoveryHandler: object): string {
  return JSON.stringify({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name },
    spec: { discoveryHandler },
  })
}

function remove(folder: string): Promise<string> {
  return kubectl('delete', '-k', folder, '--ignore-not-found', '--wait=false')
}

function secret(stringData: Readonly<Record<string, string>>): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'onvif-cameras' },
    stringData,
  })
}
