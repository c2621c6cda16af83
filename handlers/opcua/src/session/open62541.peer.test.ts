import {
  type Device,
  DiscoveryProperties,
  type Logger,
  messageOf,
  serve,
  silentLogger,
  systemClock,
} from '@akrijs/sdk'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { describe, expect, it } from 'vitest'
import { missingForOpen62541, useOpen62541 } from '../../test-peers/open62541.js'
import { createOpcuaHandler } from '../index.js'
import { ServerSessions, type ServerSessionsOptions } from './server-sessions.js'
import { SessionPlaces } from './session-places.js'

// Sessions with an independent server implementation.

const needed = missingForOpen62541.length > 0 ? ` (needs ${missingForOpen62541.join(', ')})` : ''
const anna = { username_default: 'anna', password_default: 'geheim' }
const FACTS = {
  OPCUA_SERVER_STATE: 'Running',
  OPCUA_SERVER_START_TIME: expect.stringMatching(/^20\d\d-/),
  OPCUA_PRODUCT_NAME: 'Mixer',
  OPCUA_MANUFACTURER: 'ACME',
  OPCUA_SOFTWARE_VERSION: '2.4.1',
  OPCUA_BUILD_NUMBER: '77',
  OPCUA_BUILD_DATE: '2026-02-03T04:05:06.000Z',
  OPCUA_NAMESPACES: 'http://opcfoundation.org/UA/ urn:test:Mixer',
}

describe.skipIf(missingForOpen62541.length > 0)(
  `a session with a server of open62541${needed}`,
  () => {
    const peers = useOpen62541()

    it('adds state, product and namespaces to the device with serverDetails', async () => {
      const { url } = await peers.start('Mixer')
      const plain = await offered(url, {})
      const detailed = await offered(url, { serverDetails: true })
      expect(plain?.properties).not.toHaveProperty('OPCUA_SERVER_DETAILS')
      expect(detailed).toEqual({
        ...plain,
        properties: { ...plain?.properties, OPCUA_SERVER_DETAILS: 'anonymous', ...FACTS },
      })
    })

    it('has no security if the server refuses the certificate, or fails', async () => {
      const open = await peers.start('Mixer', '-s')
      const anonymous = { OPCUA_SERVER_DETAILS: 'anonymous', ...FACTS }
      expect(await read(open.port)).toEqual(anonymous)
      expect(await read(open.port, anna)).toEqual({
        ...anonymous,
        OPCUA_DEFAULT_CREDENTIAL: 'credential-not-taken',
      })
      const { port } = await peers.start('Mixer', '-s', '-u', 'anna:geheim')
      const messages: string[] = []
      const log: Logger = {
        ...silentLogger,
        info: ({ err }) => messages.push(messageOf(err)),
      }
      expect(await read(port, anna, { trustAnyServer: true, log })).toEqual({})
      expect(messages).toEqual([
        expect.stringMatching(/^the server may not trust the certificate of the handler: /),
      ])
    })

    it('has a user, whose password goes encrypted to a trusted server only', async () => {
      const secured = await peers.start('Mixer', '-s', '-t', '-u', 'anna:geheim')
      expect(await read(secured.port, anna)).toEqual({
        OPCUA_SERVER_DETAILS: 'certificate-not-trusted',
      })
      const user = { OPCUA_SERVER_DETAILS: 'user', ...FACTS }
      expect(await read(secured.port, anna, { trustAnyServer: true })).toEqual(user)
      const plain = await peers.start('Mixer', '-u', 'anna:geheim')
      expect(await read(plain.port, anna, { trustAnyServer: true })).toEqual({
        OPCUA_SERVER_DETAILS: 'security-too-weak',
      })
      expect(await read(plain.port, anna, { allowUnencryptedPasswords: true })).toEqual(user)
    })

    it('fails with a wrong password, an unknown user or none, and reports which', async () => {
      const { port } = await peers.start('Mixer', '-s', '-t', '-u', 'anna:geheim')
      const refused = { OPCUA_SERVER_DETAILS: 'credential-refused' }
      expect(
        await read(port, { ...anna, password_default: 'falsch' }, { trustAnyServer: true }),
      ).toEqual(refused)
      expect(
        await read(port, { ...anna, username_default: 'bert' }, { trustAnyServer: true }),
      ).toEqual(refused)
      expect(await read(port)).toEqual({ OPCUA_SERVER_DETAILS: 'credential-wanted' })
    })
  },
)

/** The device that the handler offers. */
async function offered(url: string, details: object): Promise<Device | undefined> {
  const agent = await SimulatedAgent.start()
  const server = await serve(createOpcuaHandler(), { directory: agent.directory })
  const opcuaDiscoveryMethod = { standard: { discoveryUrls: [url] } }
  const session = await agent.discover('opcua', {
    details: JSON.stringify({ opcuaDiscoveryMethod, ...details }),
  })
  try {
    const [device] = await session.next()
    return device
  } finally {
    await session.close()
    await server.close()
    await agent.close()
  }
}

async function read(
  port: number,
  texts: Readonly<Record<string, string>> = {},
  options: Partial<ServerSessionsOptions> = {},
) {
  const server = { discoveryUrl: `opc.tcp://127.0.0.1:${port}` }
  const application = { applicationUri: 'urn:test:Mixer', productUri: '', applicationName: '' }
  const sessions = await ServerSessions.open({
    properties: DiscoveryProperties.fromTexts(texts),
    places: new SessionPlaces(),
    targetOf: async () => ({ addresses: ['127.0.0.1'], port, endpointUrl: server.discoveryUrl }),
    clock: systemClock,
    log: silentLogger,
    ...options,
  })
  await sessions.update([{ server, application }], new AbortController().signal)
  return sessions.of(server)
}
