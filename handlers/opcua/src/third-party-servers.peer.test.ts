import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { type Device, serve } from '@akrijs/sdk'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alone } from '../../../test/support/alone.js'
import { Lan } from '../../../test/support/lan.js'
import { missingForOpen62541, useOpen62541 } from '../test-peers/open62541.js'
import { SecuredServer } from '../test-peers/secured-server.js'
import { DISCOVERY_SERVER, SimulatedServer } from '../test-peers/simulated-server.js'
import { createOpcuaHandler } from './index.js'

// Independent implementations: open62541, and node-opcua as a discovery server with registrations.
alone()

const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0
const needs = (names: readonly string[]) => (names.length > 0 ? ` (needs ${names.join(', ')})` : '')

/** The lists that the handler sends to an agent. @param discoveryUrls @default multicast DNS */
async function discover(discoveryUrls?: readonly string[]) {
  const opcuaDiscoveryMethod = discoveryUrls ? { standard: { discoveryUrls } } : { mdns: {} }
  const agent = await SimulatedAgent.start()
  const server = await serve(createOpcuaHandler({ interval: 200 }), { directory: agent.directory })
  const session = await agent.discover('opcua', {
    details: JSON.stringify({ opcuaDiscoveryMethod }),
  })
  return {
    async until(satisfied: (devices: readonly Device[]) => boolean): Promise<readonly Device[]> {
      for await (const devices of session) if (satisfied(devices)) return devices
      throw new TypeError('the discovery has ended')
    },
    async [Symbol.asyncDispose]() {
      await session.close()
      await server.close()
      await agent.close()
    },
  }
}

const ids = (devices: readonly Device[]) => devices.map(({ id }) => id)

describe.skipIf(missingForOpen62541.length > 0)(
  `with open62541${needs(missingForOpen62541)}`,
  () => {
    const peers = useOpen62541()

    it('offers a server with its security policies and its certificate', async () => {
      const { url } = await peers.start('Secured', '-s')
      await using discovery = await discover([url])
      const [device] = await discovery.until(() => true)
      expect(device).toMatchObject({
        id: url,
        properties: {
          OPCUA_DISCOVERY_URL: url,
          OPCUA_APPLICATION_URI: 'urn:test:Secured',
          OPCUA_APPLICATION_NAME: 'Secured',
          OPCUA_PRODUCT_URI: 'http://open62541.org',
          OPCUA_SECURITY_POLICIES: expect.stringMatching(
            /Aes128_Sha256_RsaOaep,.*Basic256Sha256,None/,
          ),
          OPCUA_SECURITY_MODES: 'None,Sign,SignAndEncrypt',
          OPCUA_USER_TOKENS: expect.stringContaining('Anonymous'),
          OPCUA_SERVER_CERTIFICATE_THUMBPRINT: expect.stringMatching(/^[0-9A-F]{40}$/),
        },
      })
    })

    it('offers servers that register with a discovery server, until they unregister', async () => {
      const lds = await peers.start('LDS', '-l')
      const [first, second] = [
        await peers.start('One', '-r', lds.url),
        await peers.start('Two', '-r', lds.url),
      ]
      await using discovery = await discover([lds.url])
      expect(ids(await discovery.until((devices) => devices.length === 2)).sort()).toEqual(
        [first.url, second.url].sort(),
      )
      await peers.end(first)
      expect(ids(await discovery.until((devices) => devices.length === 1))).toEqual([second.url])
    })

    it('understands the requests of its client', async () => {
      await using server = await SimulatedServer.start({ name: 'Ours' })
      server.applications = [DISCOVERY_SERVER, ...server.applications]
      expect(await peers.find(server.url)).toEqual([
        'FindServers Good',
        'application 3 LDS',
        'application 0 Ours',
        'GetEndpoints Good',
        'endpoint 1 http://opcfoundation.org/UA/SecurityPolicy#None',
      ])
    })
  },
)

describe('with node-opcua', () => {
  it.each(['0.0.0.0', 'localhost', 'plc.invalid'])(
    'offers a server that reports the host %s where it was asked',
    async (hostname) => {
      const server = await SecuredServer.start({ applicationUri: 'urn:test:local', hostname })
      try {
        const asked = server.url.replace('127.0.0.1', '127.0.0.2')
        await using discovery = await discover([asked])
        expect(await discovery.until(() => true)).toMatchObject([
          { id: asked, properties: { OPCUA_APPLICATION_URI: 'urn:test:local' } },
        ])
      } finally {
        await server.close()
      }
    },
  )
})

const missingForLan = [
  ...(process.getuid?.() === 0 ? [] : ['root']),
  ...(has('ip', '-V') ? [] : ['the Debian package iproute2']),
]

describe.skipIf(missingForLan.length > 0)(
  `with node-opcua on another machine${needs(missingForLan)}`,
  () => {
    let lan: Lan

    beforeEach(() => {
      lan = new Lan(`akrn${process.pid % 1000}`)
    })

    afterEach(() => lan.close())

    const PROGRAM = path.join(import.meta.dirname, '../test-peers/node-opcua.mjs')

    it('offers a server of FindServersOnNetwork (multicast DNS) until it ends', async () => {
      const host = await lan.addHost(140 + (process.pid % 100))
      const peer = await lan.spawn(
        host,
        process.execPath,
        [PROGRAM, host.address, 'announced'],
        /^announced$/m,
      )
      await using discovery = await discover([`opc.tcp://${host.address}:4840`])
      const [device] = await discovery.until((devices) => devices.length === 1)
      expect(device).toMatchObject({
        id: `opc.tcp://${host.address}:4842/UA/Announced`,
        properties: {
          OPCUA_APPLICATION_URI: 'urn:test:announced',
          OPCUA_APPLICATION_NAME: 'Announced',
        },
      })
      peer.kill('SIGUSR1')
      expect(await discovery.until((devices) => devices.length === 0)).toEqual([])
    })

    it('offers a server that node-opcua announces by mDNS until its goodbye', async () => {
      const host = await lan.addHost(240)
      const args = [path.join(import.meta.dirname, '../test-peers/mdns-server.mjs'), '4870', '/UA']
      const server = await lan.spawn(host, process.execPath, args, /^announced$/m)
      await using discovery = await discover()
      // Other servers of this network may announce themselves too.
      const isListed = (devices: readonly Device[]) =>
        ids(devices).includes(`opc.tcp://${host.address}:4870`)
      await discovery.until(isListed)
      await lan.kill(server)
      await discovery.until((devices) => !isListed(devices))
    })

    it('offers a secured server of a discovery server until it unregisters', async () => {
      const host = await lan.addHost(40 + (process.pid % 100))
      const peer = await lan.spawn(
        host,
        process.execPath,
        [PROGRAM, host.address, 'registered'],
        /^registered$/m,
      )
      await using discovery = await discover([`opc.tcp://${host.address}:4840`])
      const [device] = await discovery.until((devices) => devices.length === 1)
      expect(device).toMatchObject({
        id: `opc.tcp://${host.address}:4841`,
        properties: {
          OPCUA_APPLICATION_URI: 'urn:test:registered',
          OPCUA_APPLICATION_NAME: 'Registered',
          OPCUA_SECURITY_POLICIES: expect.stringMatching(/Basic256Sha256.*None/),
          OPCUA_SECURITY_MODES: 'None,Sign,SignAndEncrypt',
          OPCUA_USER_TOKENS: 'Anonymous,Certificate,UserName',
          OPCUA_SERVER_CERTIFICATE_THUMBPRINT: expect.stringMatching(/^[0-9A-F]{40}$/),
        },
      })
      peer.kill('SIGUSR1')
      expect(await discovery.until((devices) => devices.length === 0)).toEqual([])
    })
  },
)
