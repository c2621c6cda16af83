import { describe, expect, it } from 'vitest'
import { withoutDuplicates, withoutNames } from './duplicate-servers.js'
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

describe('servers that answered at a discovery URL with a name', () => {
  const answered = (discoveryUrl: string, addresses: readonly string[], applicationUri = URI) => ({
    discoveryUrl,
    listedFrom: addresses,
    application: { ...application, applicationUri },
    hasHostOfDetails: true,
  })
  const byAddress = answered('opc.tcp://10.0.0.1:4840/', ['10.0.0.1'])
  const byIPv6 = answered('opc.tcp://[fd00::1]:4840/', ['fd00::1'])
  const byName = answered('opc.tcp://plc1:4840/', ['10.0.0.1'])
  const byTwo = answered('opc.tcp://plc1:4840/', ['fd00::1', '10.0.0.1'])

  it('have the URL with the address, in any order', () => {
    expect(withoutNames([byName, byAddress])).toEqual([byAddress])
    expect(withoutNames([byAddress, byName])).toEqual([byAddress])
    expect(withoutNames([byTwo, byAddress, byIPv6])).toEqual([byAddress, byIPv6])
  })

  it('keep the name if a call by name may have reached another server', () => {
    for (const other of [
      byTwo,
      answered('opc.tcp://plc1:4841/', ['10.0.0.1']),
      answered('opc.tcp://plc1:4840/', ['10.0.0.2']),
      answered('opc.tcp://plc1:4840/', ['10.0.0.1'], 'urn:other'),
      answered('opc.tcp://plc1:4840/', []),
    ])
      expect(withoutNames([other, byAddress])).toEqual([other, byAddress])
  })

  it('keep the name beside an entry of a discovery server, which anyone can register', () => {
    const registered = { ...byAddress, hasHostOfDetails: false }
    expect(withoutNames([byName, registered])).toEqual([byName, registered])
  })
})
