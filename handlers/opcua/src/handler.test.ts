import { describe, expect, it } from 'vitest'
import { application, DISCOVERY_SERVER, endpoint } from '../test-peers/simulated-server.js'
import { discoveryServer, endRounds, ids, Rounds, standard, start, stop } from './testing/rounds.js'

describe('the OPC UA handler', () => {
  it('offers a server that reports itself, with its identity and endpoints', async () => {
    const plc = await start({ name: 'PLC 1' })
    const rounds = new Rounds(standard([plc.url]))
    expect(await rounds.first()).toEqual([
      {
        id: plc.url,
        properties: {
          OPCUA_DISCOVERY_URL: plc.url,
          OPCUA_APPLICATION_URI: 'urn:test:PLC 1',
          OPCUA_APPLICATION_NAME: 'PLC 1',
          OPCUA_PRODUCT_URI: 'urn:test:product',
          OPCUA_SECURITY_POLICIES: 'None',
          OPCUA_SECURITY_MODES: 'None',
          OPCUA_USER_TOKENS: 'Anonymous',
        },
        mounts: [],
        deviceSpecs: [],
      },
    ])
  })

  it('D3 offers a server once if several URLs report it', async () => {
    const [first, second] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(first, second, first)
    // Duplicates need not be neighbours.
    const rounds = new Rounds(standard([second.url, lds.url, first.url, lds.url]))
    expect(ids(await rounds.first())).toEqual([second.url, first.url])
    expect(rounds.logged).toEqual([])
  })

  it('filters by application name, and does not call excluded servers', async () => {
    const [first, second] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(first, second)
    for (const [filter, wanted, leftOut] of [
      [{ items: ['one'] }, [first.url], [second.url]],
      [{ items: ['one'], action: 'Exclude' }, [second.url], [first.url]],
      [{ items: ['ONE'] }, [], [first.url, second.url]],
    ] as const) {
      const rounds = new Rounds(standard([lds.url], { applicationNames: filter }))
      expect(ids(await rounds.first())).toEqual(wanted)
      expect(rounds.leftOut).toEqual(leftOut.map((url) => [url, 'filtered by applicationNames']))
      endRounds()
    }
    expect(first.asked).toEqual(['GetEndpoints'])
    expect(second.asked).toEqual(['GetEndpoints'])
  })

  it('offers nothing with Include of nothing, as Akri, and warns', async () => {
    const plc = await start()
    const rounds = new Rounds(standard([plc.url], { applicationNames: { items: [] } }))
    expect(await rounds.first()).toEqual([])
    expect(rounds.leftOut).toEqual([[plc.url, 'filtered by applicationNames']])
    expect(rounds.logged).toMatchObject([
      {
        level: 'warn',
        message: 'details questionable',
        fields: {
          field: 'applicationNames',
          problem: 'Include without items matches nothing',
        },
      },
    ])
  })

  it('leaves out values that are unsafe in an environment variable', async () => {
    const plc = await start()
    const [self] = plc.applications
    const hostile = {
      applicationUri: 'a\0b',
      productUri: 'line\nline',
      applicationName: 'x'.repeat(600),
    }
    plc.applications = [{ ...application(self), ...hostile, discoveryUrls: [plc.url] }]
    const rounds = new Rounds(standard([plc.url]))
    expect(Object.keys((await rounds.first())?.[0]?.properties ?? {})).toEqual([
      'OPCUA_DISCOVERY_URL',
      'OPCUA_SECURITY_POLICIES',
      'OPCUA_SECURITY_MODES',
      'OPCUA_USER_TOKENS',
    ])
  })

  it('offers a thousand servers, and warns about more', async () => {
    const lds = await start()
    const urls = Array.from(
      { length: 1001 },
      (_, index) => `opc.tcp://127.1.${index >> 8}.${index & 255}:1/`,
    )
    lds.applications = [
      DISCOVERY_SERVER,
      ...urls.map((url) =>
        application({
          applicationName: 'x'.repeat(400),
          applicationUri: 'y'.repeat(400),
          discoveryUrls: [url],
        }),
      ),
    ]
    const rounds = new Rounds(standard([lds.url]))
    expect(ids(await rounds.first())).toEqual(urls.slice(0, 1000))
    expect(rounds.logged.filter(({ level }) => level === 'warn')).toMatchObject([
      { fields: { found: 1001, limit: 1000 } },
    ])
    // The many servers take no place from those of other URLs.
    endRounds()
    const plc = await start()
    const two = new Rounds(standard([lds.url, plc.url]))
    expect(ids(await two.first())).toEqual([urls[0], plc.url, ...urls.slice(1, 999)])
  })

  it('leaves out servers over the size limit of a list, and offers the others', async () => {
    const long = (text: string) => text.padEnd(500, 'x')
    const policies = Array.from(
      { length: 8 },
      (_, n) => `http://opcfoundation.org/UA/SecurityPolicy#${`P${n}`.padEnd(60, 'x')}`,
    )
    const plc = await start()
    plc.endpoints = policies.map((securityPolicyUri) =>
      endpoint(application({ discoveryUrls: [plc.url] }), { securityPolicyUri }),
    )
    // The servers do not fit into one answer.
    const all = await Promise.all([start(), start(), start(), start()])
    for (const [index, lds] of all.entries()) {
      const listed = Array.from({ length: 250 }, (_, n) =>
        application({
          applicationUri: long(`urn:test:${index}:${n}`),
          applicationName: long('name'),
          productUri: long('urn:test:product'),
          discoveryUrls: [long(`${plc.url}${index}/${n}/`)],
        }),
      )
      lds.applications = [DISCOVERY_SERVER, ...listed]
    }
    const rounds = new Rounds(standard(all.map(({ url }) => url)))
    const offered = (await rounds.first())?.length ?? 0
    expect(offered).toBeGreaterThan(500)
    const told = () =>
      rounds.logged.filter(({ message }) => message === 'servers left out of a full device list')
    // Endpoint properties arrive over several rounds, and make the list too long.
    for (let round = 0; round < 40 && told().length === 0; round++) await rounds.next()
    expect(told(), 'after 40 rounds').not.toEqual([])
    await rounds.next()
    expect(told().map(({ fields }) => fields)).toEqual([
      { offered: expect.any(Number), leftOut: expect.any(Number) },
    ])
    expect(rounds.leftOut[0]?.[1]).toBe('device list full')
  })

  it('ends with its signal, also during a call', async () => {
    const plc = await start()
    plc.silent = true
    const rounds = new Rounds(standard([plc.url]), { timeouts: { totalMs: 60_000 } })
    await expect.poll(() => plc.connections).toBe(1)
    stop.abort()
    await rounds.ended
    await expect.poll(() => plc.connections).toBe(0)
  })

  it.each([
    [{ opcuaDiscoveryMethod: {} }, /opcuaDiscoveryMethod: name one method: standard or mdns/],
    [
      standard([], { allowedNetworks: ['10.0.0.0/33'] }),
      /allowedNetworks\[0\]: this is not a network/,
    ],
  ])('refuses wrong details: %j', async (details, message) => {
    await expect(new Rounds(details).ended).rejects.toThrow(message)
  })

  it('calls port 4840 of this machine without URLs in the details', async () => {
    const rounds = new Rounds({ opcuaDiscoveryMethod: { standard: {} } })
    await rounds.first()
    const known = rounds.lists.length > 0
    expect(known || rounds.logged[0]?.fields.discoveryUrl === 'opc.tcp://localhost:4840/').toBe(
      true,
    )
  })

  it('finds nothing with an empty list of URLs, and warns', async () => {
    const rounds = new Rounds(standard([]))
    expect(await rounds.first()).toEqual([])
    expect(rounds.logged).toMatchObject([
      { level: 'warn', message: 'discovery started without discovery URLs' },
    ])
    expect(rounds.remarks).toEqual([
      'there are no discovery URLs: name some in opcuaDiscoveryMethod.standard',
    ])
  })
})
