import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import type { ConfigurationStatus } from '@akrijs/api'
import { messageOf } from '@akrijs/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  missingForOpen62541,
  Open62541,
  type Open62541Server,
} from '../../../handlers/opcua/test-peers/open62541.js'
import { CHART } from '../../helm/chart.js'
import { missingHelm, runHelm } from '../../helm/programs.js'
import { IMAGE } from '../support/image.js'
import { kubectl } from '../support/kubectl.js'
import { HOST, missingHere, NODES } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, podYaml, World } from '../support/world.js'
import {
  installedPods,
  joinNodes,
  missingForInstallation,
  opcuaClientTree,
  provideImage,
  rolledOut,
  separateNodes,
} from './installation.js'
import { commandBlocks } from './page-commands.js'

// `serverDetails` in a release of the chart, with a server of open62541 on the network of the
// nodes. Each test builds on the tests before it.

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../../..')
const HELM = 'helm3'
const HANDLER = 'akri-opcua-discovery'
const CLIENT_IMAGE = IMAGE.replace('akri-agent', 'akri-agent-opcua-client')
/** The command of the page that moves the handler to the image with the client. */
const UPGRADE = commandBlocks('docs/handlers/opcua.md', 'Properties of a device').find((code) =>
  code.startsWith('helm upgrade '),
)

const lacks =
  missingHere() ??
  missingForInstallation() ??
  missingHelm(HELM) ??
  (missingForOpen62541.length > 0 ? `needs ${missingForOpen62541.join(', ')}` : undefined) ??
  (await Open62541.build().then(
    () => undefined,
    (error: unknown) => `open62541 cannot be had: ${messageOf(error)}`,
  ))

describe.skipIf(lacks !== undefined)(
  `serverDetails, installed by Helm${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    const servers = new Open62541()
    let world: World
    let server: Open62541Server

    const status = async () =>
      (await world.get<{ status?: ConfigurationStatus }>('Configuration', 'opcua'))?.status
    const instance = async () =>
      (await world.instances()).find(
        ({ spec }) => spec.brokerProperties.OPCUA_DISCOVERY_URL === server.url,
      )

    beforeAll(async () => {
      await separateNodes()
      await Promise.all([provideImage(), provideImage(CLIENT_IMAGE, opcuaClientTree)])
      world = await World.open()
      server = await servers.start('Mixer', '-a', HOST)
      await kubectl('create', 'namespace', 'akri')
      const level = 'pod-security.kubernetes.io/enforce=privileged'
      await kubectl('label', 'namespace', 'akri', level)
    })

    afterAll(async () => {
      await tidyUp(
        async () => world?.close(),
        () => servers.close(),
        () => runHelm(HELM, 'uninstall', 'akri', '--namespace', 'akri'),
        () => kubectl('delete', 'namespace', 'akri', '--timeout=120s'),
        () => joinNodes(),
      )
    })

    it('names what the image lacks in the condition of the Configuration', async () => {
      const values = ['opcua.discovery.enabled=true', 'webhookConfiguration.enabled=false']
      const options = ['--namespace', 'akri', '--skip-crds', '--set', values.join()]
      await runHelm(HELM, 'install', 'akri', CHART, ...options)
      await rolledOut('daemonset/akri-agent-daemonset')
      await rolledOut(`daemonset/${HANDLER}-daemonset`)
      const standard = { discoveryUrls: [server.url] }
      const details = { opcuaDiscoveryMethod: { standard }, serverDetails: true }
      await world.apply(
        JSON.stringify({
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name: 'opcua' },
          spec: {
            discoveryHandler: { name: 'opcua', discoveryDetails: JSON.stringify(details) },
          },
        }),
      )
      await eventually(async () =>
        expect((await status())?.conditions).toContainEqual(
          expect.objectContaining({
            status: 'False',
            message: expect.stringMatching(
              /serverDetails needs the package node-opcua-client: .* target with-opcua-client/,
            ),
          }),
        ),
      )
      expect(await instance()).toBeUndefined()
    })

    it('R102 reads the details of a server with the image of the page', async () => {
      const command = UPGRADE?.replaceAll('registry.example/', 'localhost/')
      const script = `helm() { ${HELM} "$@"; }\n${command}`
      await run('bash', ['-ec', script], { cwd: root })
      await rolledOut(`daemonset/${HANDLER}-daemonset`)
      const { metadata } = await eventually(async () => {
        const found = await instance()
        expect(found?.spec.brokerProperties).toMatchObject({
          OPCUA_SERVER_DETAILS: 'anonymous',
          OPCUA_SERVER_STATE: 'Running',
          OPCUA_PRODUCT_NAME: 'Mixer',
          OPCUA_MANUFACTURER: 'ACME',
          OPCUA_SOFTWARE_VERSION: '2.4.1',
          OPCUA_BUILD_NUMBER: '77',
          OPCUA_NAMESPACES: expect.stringContaining('http://opcfoundation.org/UA/'),
        })
        return found ?? expect.fail('there is no Instance')
      })
      await eventually(async () =>
        expect((await status())?.conditions).toContainEqual(
          expect.objectContaining({ type: 'Ready', status: 'True' }),
        ),
      )
      const pods = await installedPods(HANDLER)
      expect(pods.map(({ spec }) => spec.containers.map(({ image }) => image))).toEqual(
        NODES.map(() => [CLIENT_IMAGE]),
      )
      // Within the memory limit of the page.
      for (const { status } of pods)
        expect(status.containerStatuses.map(({ restartCount }) => restartCount)).toEqual([0])
      await world.apply(podYaml('viewer', { [`akri.sh/${metadata.name}`]: 1 }))
      await eventually(async () =>
        expect((await world.logs('viewer')).split('\n')).toContain('OPCUA_PRODUCT_NAME=Mixer'),
      )
    })
  },
)
