import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SimulatedServer } from '../../../handlers/opcua/test-peers/simulated-server.js'
import { CHART } from '../../helm/chart.js'
import { HELMS, missingHelm, runHelm } from '../../helm/programs.js'
import { kubectl } from '../support/kubectl.js'
import { HOST, missingHost, NODES } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, podYaml, World } from '../support/world.js'
import {
  joinNodes,
  missingForInstallation,
  provideImage,
  rolledOut,
  separateNodes,
} from './installation.js'

// Upgrades of a release move the ONVIF and the OPC UA handler into one process, and back. Each test
// builds on the tests before it.

const APART = ['akri-onvif-discovery-daemonset', 'akri-opcua-discovery-daemonset'] as const
const TOGETHER = ['akri-network-discovery-daemonset'] as const

describe.for(HELMS)('handlers in releases of %s', (program) => {
  const lacks = missingHost() ?? missingForInstallation() ?? missingHelm(program)
  describe.skipIf(lacks !== undefined)(lacks ?? 'on this cluster', () => {
    let world: World
    let camera: SimulatedCamera
    let server: SimulatedServer

    const helm = async (command: string, ...values: string[]) => {
      const both = 'onvif.discovery.enabled=true,opcua.discovery.enabled=true'
      const set = [both, 'webhookConfiguration.enabled=false', ...values].join()
      const options = ['--namespace', 'akri', '--skip-crds', '--set', set]
      await runHelm(program, command, 'akri', CHART, ...options)
    }
    const configuration = (handler: string, discoveryDetails: string) =>
      world.apply(
        JSON.stringify({
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name: handler },
          spec: { discoveryHandler: { name: handler, discoveryDetails } },
        }),
      )
    const daemonSets = async () =>
      (await kubectl('-n', 'akri', 'get', 'daemonsets', '-o', 'name'))
        .trim()
        .split('\n')
        .map((name) => name.replace('daemonset.apps/', ''))
        .filter((name) => name !== 'akri-agent-daemonset')
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
      world = await World.open()
      camera = await SimulatedCamera.start({ address: HOST })
      server = await SimulatedServer.start({ name: 'Press', host: HOST })
      await kubectl('create', 'namespace', 'akri')
      const level = 'pod-security.kubernetes.io/enforce=privileged'
      await kubectl('label', 'namespace', 'akri', level)
    })

    afterAll(async () => {
      await tidyUp(
        async () => world?.close(),
        async () => camera?.[Symbol.asyncDispose](),
        async () => server?.[Symbol.asyncDispose](),
        () => runHelm(program, 'uninstall', 'akri', '--namespace', 'akri'),
        () => kubectl('delete', 'namespace', 'akri', '--timeout=120s'),
        () => joinNodes(),
      )
    })

    it('run in two processes, if the values say so', async () => {
      await helm('install', 'discovery.oneProcess=false')
      expect(await daemonSets()).toEqual(APART)
      for (const name of ['akri-agent-daemonset', ...APART]) await rolledOut(`daemonset/${name}`)
      await configuration('onvif', '{}')
      await configuration(
        'opcua',
        JSON.stringify({ opcuaDiscoveryMethod: { standard: { discoveryUrls: [server.url] } } }),
      )
      for (const resource of ['akri.sh/onvif', 'akri.sh/opcua'])
        await eventually(async () => expect(await world.allocatables(resource)).toEqual([1, 1]))
      await world.apply(podYaml('viewer', { 'akri.sh/onvif': 1 }, { node: NODES[0] }))
      await eventually(() => world.running('viewer'))
    })

    it('move into one process without an effect on Instances and Pods', async () => {
      const before = await state()
      expect(before.instances).toHaveLength(2)
      await helm('upgrade')
      expect(await daemonSets()).toEqual(TOGETHER)
      for (const name of TOGETHER) await rolledOut(`daemonset/${name}`)
      expect(await state()).toEqual(before)
      await findsAnother()
      expect(await state()).toEqual(before)
    })

    it('move into two processes again without an effect on Instances and Pods', async () => {
      const before = await state()
      await helm('upgrade', 'opcua.discovery.hostNetwork=false')
      expect(await daemonSets()).toEqual(APART)
      for (const name of APART) await rolledOut(`daemonset/${name}`)
      expect(await state()).toEqual(before)
      await findsAnother()
      expect(await state()).toEqual(before)
    })
  })
})
