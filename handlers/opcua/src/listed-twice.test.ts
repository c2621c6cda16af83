import { describe, expect, it } from 'vitest'
import type { FoundServer } from './found-server.js'
import { withoutListedTwice } from './listed-twice.js'

const URI = 'urn:plc1'
const application = { applicationUri: URI, productUri: '', applicationName: '' }
const listed: FoundServer = { discoveryUrl: 'opc.tcp://plc1:4840/', application }
const again: FoundServer = { discoveryUrl: 'opc.tcp://plc1.local:4840/' }
const otherPort: FoundServer = { discoveryUrl: 'opc.tcp://plc1.local:4841/' }
const otherHost: FoundServer = { discoveryUrl: 'opc.tcp://plc2.local:4840/' }

const addressOf = ({ discoveryUrl }: FoundServer) =>
  discoveryUrl.includes('plc1') ? '10.0.0.1' : '10.0.0.2'

describe('servers that are listed and announced', () => {
  it('are left out as announced where application, address and port are the same', async () => {
    const once = await withoutListedTwice(
      [again, otherPort, listed, otherHost],
      () => URI,
      async (server) => [addressOf(server)],
    )
    expect(once).toEqual([otherPort, listed, otherHost])
  })

  it('stay where nobody knows which application an announced one is', async () => {
    const uriOf = (server: FoundServer) => server.application?.applicationUri
    expect(
      await withoutListedTwice([again, listed], uriOf, async (server) => [addressOf(server)]),
    ).toEqual([again, listed])
  })

  it('are looked up at the same time', async () => {
    const answers: (() => void)[] = []
    const addressesOf = (server: FoundServer) =>
      new Promise<readonly string[]>((resolve) => answers.push(() => resolve([addressOf(server)])))
    const once = withoutListedTwice([listed, again, otherHost], () => URI, addressesOf)
    expect(answers).toHaveLength(3)
    for (const answer of answers) answer()
    expect(await once).toEqual([listed, otherHost])
  })
})
