import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { followDiscovery } from '@akrijs/sdk/host'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { SecuredServer } from '../../test-peers/secured-server.js'
import { createOpcuaHandler } from '../handler.js'

let server: SecuredServer
const stop = new AbortController()

beforeEach(async () => {
  server = await SecuredServer.start({ applicationUri: 'urn:akri:test', users: { anna: 'geheim' } })
})

afterEach(async () => {
  stop.abort()
  await server.close()
})

it('a server that refuses a credential is a device with a problem', async () => {
  const problems = async (properties: Readonly<Record<string, string>>) => {
    const lists = followDiscovery(createOpcuaHandler(), {
      details: JSON.stringify({
        opcuaDiscoveryMethod: { standard: { discoveryUrls: [server.url] } },
        serverDetails: true,
        trustAnyServer: true,
      }),
      properties: DiscoveryProperties.fromTexts(properties),
      signal: stop.signal,
      log: silentLogger,
    })
    const { value } = await lists.next()
    expect(value?.devices).toHaveLength(1)
    return value?.problems.devices
  }
  const user = 'urn_akri_test'
  const refused = [{ id: server.url, reason: 'credential refused' }]
  expect(await problems({ username_default: 'anna', password_default: 'x' })).toEqual(refused)
  expect(await problems({ [`username_${user}`]: 'anna', [`password_${user}`]: 'x' })).toEqual(
    refused,
  )
  expect(await problems({ username_default: 'anna', password_default: 'geheim' })).toEqual([])
  expect(await problems({})).toEqual([])
})
