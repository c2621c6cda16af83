import { describe, expect, it } from 'vitest'
import { withoutDuplicates } from './duplicate-servers.js'
import type { OpcuaServer } from './opcua-server.js'

const URI = 'urn:plc1'
const application = { applicationUri: URI, productUri: '', applicationName: '' }
const listed: OpcuaServer = { discoveryUrl: 'opc.tcp://plc1:4840/', application }
const again: OpcuaServer = { discoveryUrl: 'opc.tcp://plc1.local:4840/' }
const otherPort: OpcuaServer = { discoveryUrl: 'opc.tcp://plc1.local:4841/' }
const otherHost: OpcuaServer = { discoveryUrl: 'opc.tcp://plc2.local:4840/' }

const addressOf = ({ discoveryUrl }: OpcuaServer) =>
  discoveryUrl.includes('plc1') ? '10.0.0.1' : '10.0.0.2'

describe('servers that are both listed and announced', () => {
  it('are offered once if application, address and port are equal', async () => {
    const once = await withoutDuplicates(
      [again, otherPort, listed, otherHost],
      () => URI,
      async (server) => [addressOf(server)],
    )
    expect(once).toEqual([otherPort, listed, otherHost])
  })

  it('are both offered while the application of the announced server is unknown', async () => {
    const uriOf = (server: OpcuaServer) => server.application?.applicationUri
    expect(
      await withoutDuplicates([again, listed], uriOf, async (server) => [addressOf(server)]),
    ).toEqual([again, listed])
  })

  it('have their names resolved at the same time', async () => {
    const answers: (() => void)[] = []
    const addressesOf = (server: OpcuaServer) =>
      new Promise<readonly string[]>((resolve) => answers.push(() => resolve([addressOf(server)])))
    const once = withoutDuplicates([listed, again, otherHost], () => URI, addressesOf)
    expect(answers).toHaveLength(3)
    for (const answer of answers) answer()
    expect(await once).toEqual([listed, otherHost])
  })
})
