import { AkriError } from '@akrijs/sdk'
import { describe, expect, it } from 'vitest'
import { application, endpoint, type SimulatedServer } from '../../test-peers/simulated-server.js'
import {
  clock,
  discoveryServer,
  endRounds,
  ids,
  list,
  Rounds,
  standard,
  start,
} from '../testing/rounds.js'

const codeOf = (error: unknown) => (AkriError.is(error) ? error.code : undefined)

describe('the OPC UA handler, with discovery URLs', () => {
  it('D3 continues after a URL fails, and logs each kind of failure once', async () => {
    const [first, silent, broken] = [await start(), await start(), await start()]
    silent.silent = true
    await broken.close()
    const rounds = new Rounds(
      standard([broken.url, 'opc.tcp://no-such-host.invalid:4840/', silent.url, first.url]),
    )
    expect(ids(await rounds.first())).toEqual([first.url])
    await rounds.next()
    const warnings = rounds.logged.filter(({ level }) => level === 'warn')
    expect(warnings.map(({ fields }) => [fields.discoveryUrl, codeOf(fields.err)]).sort()).toEqual(
      [
        [broken.url, 'AKRI_ERR_OPCUA_UNREACHABLE'],
        ['opc.tcp://no-such-host.invalid:4840/', 'AKRI_ERR_OPCUA_UNREACHABLE'],
        [silent.url, 'AKRI_ERR_OPCUA_TIMEOUT'],
      ].sort(),
    )
    expect(rounds.lists).toHaveLength(1)
  })

  it('adds servers that a discovery server received by multicast, once they answer', async () => {
    const [listed, heard, silent, other] = [
      await start({ name: 'listed' }),
      await start({ name: 'heard' }),
      await start(),
      await start(),
    ]
    silent.silent = true
    other.endpoints = [endpoint(application({ applicationType: 2, discoveryUrls: [other.url] }))]
    const lds = await discoveryServer(listed)
    const record = (discoveryUrl: string) => ({
      serverName: 'whatever',
      discoveryUrl,
      serverCapabilities: ['NA'],
    })
    // The listed server under another spelling.
    const spelling = listed.url.replace(/\/$/, '')
    lds.records = [spelling, heard.url, silent.url, other.url].map(record)
    const rounds = new Rounds(
      standard([lds.url], { applicationNames: { items: ['listed', 'heard'] } }),
    )
    expect(ids(await rounds.first())).toEqual([listed.url, heard.url])
    silent.silent = false
    lds.records = lds.records.slice(1, 2)
    await listed.close()
    list(lds, [])
    expect(ids(await rounds.next())).toEqual([heard.url])
  })

  it('believes a server, and not another, about the application at its URL', async () => {
    const [victim, evil] = [await start({ name: 'victim' }), await start({ name: 'evil' })]
    const forged = application({ applicationUri: 'urn:forged', discoveryUrls: [victim.url] })
    const sameUri = { ...victim.applications[0], applicationName: 'forged' }
    const lds = await discoveryServer()
    list(lds, [victim])
    // A registration without a user, or one of the software before.
    lds.applications = [forged, ...lds.applications]
    const filter = { applicationNames: { items: ['victim'] } }
    for (const applications of [[forged], [...evil.applications, forged], [application(sameUri)]])
      for (const urls of [[evil.url, victim.url], [victim.url, evil.url], [lds.url]]) {
        evil.applications = applications
        const rounds = new Rounds(standard(urls, filter))
        expect(await rounds.first()).toMatchObject([
          {
            id: victim.url,
            properties: {
              OPCUA_APPLICATION_NAME: 'victim',
              OPCUA_APPLICATION_URI: victim.applications[0]?.applicationUri,
            },
          },
        ])
        endRounds()
      }
  })

  it('resolves the name of a server, although another reports thousands of names', async () => {
    const [victim, evil] = [await start({ name: 'victim' }), await start({ name: 'evil' })]
    const url = `opc.tcp://plc.test:${victim.port}`
    victim.applications = victim.applications.map((self) => ({ ...self, discoveryUrls: [url] }))
    evil.applications = Array.from({ length: 1000 }, (_, index) =>
      application({
        applicationUri: `urn:${index}`,
        discoveryUrls: Array.from({ length: 6 }, (_, n) => `opc.tcp://${index}-${n}.test:1`),
      }),
    )
    // The answer with the names arrives first.
    victim.answersAfter = expect.poll(() => lookups).toBeGreaterThan(900)
    let lookups = 0
    const resolve = async () => {
      lookups++
      return ['127.0.0.1']
    }
    const rounds = new Rounds(standard([evil.url, victim.url]), { resolve })
    expect(ids(await rounds.first())).toContain(url)
  })

  /** The discovery server answers this service in another way than others. */
  function breakFindServersOnNetwork(
    lds: SimulatedServer,
    how: 'closes the connection' | 'stays silent',
  ) {
    lds.send = (socket, answers, to) => {
      const isBroken = to === 'MSG' && lds.asked.at(-1) === 'FindServersOnNetwork'
      if (!isBroken) for (const answer of answers) socket.write(answer)
      else if (how === 'closes the connection') socket.end()
      return isBroken && how === 'stays silent' ? 'silent' : undefined
    }
  }

  it.each(['closes the connection', 'stays silent'] as const)(
    'offers the servers of a discovery server that %s at FindServersOnNetwork, and calls it less',
    async (how) => {
      const first = await start({ name: 'one' })
      const lds = await discoveryServer(first)
      breakFindServersOnNetwork(lds, how)
      const rounds = new Rounds(standard([lds.url]))
      expect(ids(await rounds.first())).toEqual([first.url])
      for (let round = 1; round < 10; round++) await rounds.next()
      expect([rounds.lists.length, rounds.leftOut]).toEqual([1, []])
      // In the rounds 0, 1, 3 and 7.
      const calls = lds.asked.filter((service) => service === 'FindServersOnNetwork')
      expect(calls).toHaveLength(4)
      expect(rounds.logged.map(({ level, message }) => [level, message])).toEqual([
        ['info', 'FindServersOnNetwork failed'],
      ])
      lds.send = undefined
      lds.records = []
      for (let round = 10; round < 20; round++) await rounds.next()
      expect(rounds.logged.map(({ message }) => message).slice(1)).toEqual([
        'FindServersOnNetwork answered again',
      ])
    },
  )

  it('keeps servers that it received by multicast while FindServersOnNetwork fails', async () => {
    const [listed, heard, ends] = [
      await start({ name: 'listed' }),
      await start({ name: 'heard' }),
      await start({ name: 'ends' }),
    ]
    const lds = await discoveryServer(listed)
    lds.records = [heard, ends].map(({ url }) => ({
      serverName: 'whatever',
      discoveryUrl: url,
      serverCapabilities: ['NA'],
    }))
    const rounds = new Rounds(standard([lds.url]))
    expect(ids(await rounds.first())).toEqual([listed.url, heard.url, ends.url])
    breakFindServersOnNetwork(lds, 'closes the connection')
    await ends.close()
    for (let round = 1; round <= 2; round++)
      expect(ids(await rounds.next())).toEqual([listed.url, heard.url, ends.url])
    // A server that ended answered within the last minute.
    for (let round = 3; round <= 7; round++) await rounds.next()
    expect(ids(rounds.lists.at(-1))).toEqual([listed.url, heard.url])
    // An unlisted server would be removed after 20 minutes.
    for (let minutes = 0; minutes < 30; minutes += 10) {
      await clock.advance(10 * 60_000)
      expect(ids(await rounds.first())).toEqual([listed.url, heard.url])
    }
    await heard.close()
    await clock.advance(60_000)
    expect(ids(await rounds.first())).toEqual([listed.url])
  })

  it('calls FindServersOnNetwork once at a server without the multicast extension', async () => {
    const lds = await discoveryServer(await start())
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    await rounds.next()
    expect(lds.asked).toEqual(['FindServers', 'FindServersOnNetwork', 'FindServers'])
  })

  it('sends no list without a change, and does not call known servers in each round', async () => {
    const all = await Promise.all(
      Array.from({ length: 30 }, (_, index) => start({ name: `server ${index}` })),
    )
    const lds = await discoveryServer(...all)
    const rounds = new Rounds(standard([lds.url]))
    expect(await rounds.first()).toHaveLength(30)
    const asked = () => all.reduce((sum, server) => sum + server.asked.length, 0)
    expect(asked()).toBe(30)
    for (let round = 0; round < 20; round++) await rounds.next()
    expect(asked()).toBe(30)
    // After five minutes, each round calls a few of the servers again.
    await clock.untilSleeping()
    await clock.advance(105_000)
    await rounds.first()
    expect(asked()).toBe(40)
    await rounds.next()
    expect(asked()).toBe(50)
    expect(rounds.lists).toHaveLength(1)
  })

  it('omits the URL in requests to a discovery server that echoes it', async () => {
    const first = await start({ name: 'one' })
    const lds = await discoveryServer(first)
    lds.echoes = true
    const rounds = new Rounds(standard([lds.url]))
    expect(ids(await rounds.first())).toEqual([first.url])
    await rounds.next()
    expect(lds.asked.filter((service) => service === 'FindServers')).toHaveLength(3)
    expect(rounds.lists).toHaveLength(1)
  })

  it('offers a server that is listed but does not answer', async () => {
    const plc = await start({ name: 'PLC 1' })
    plc.silent = true
    const lds = await discoveryServer(plc)
    const rounds = new Rounds(standard([lds.url]))
    expect((await rounds.first())?.[0]?.properties).toEqual({
      OPCUA_DISCOVERY_URL: plc.url,
      OPCUA_APPLICATION_URI: 'urn:test:PLC 1',
      OPCUA_APPLICATION_NAME: 'PLC 1',
      OPCUA_PRODUCT_URI: 'urn:test:product',
    })
    expect(rounds.logged).toMatchObject([{ level: 'info', fields: { discoveryUrl: plc.url } }])
    plc.silent = false
    expect((await rounds.next())?.[0]?.properties).toMatchObject({
      OPCUA_SECURITY_POLICIES: 'None',
    })
  })

  it('keeps the servers of a silent discovery server while they answer', async () => {
    const [first, second] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(first, second)
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    lds.silent = true
    await second.close()
    // The second server answered within the last minute, and then not for two rounds.
    for (let round = 0; round < 7; round++)
      expect(ids(await rounds.next())).toEqual([first.url, second.url])
    expect(ids(await rounds.next())).toEqual([first.url])
    for (let round = 0; round < 10; round++) expect(ids(await rounds.next())).toEqual([first.url])
    lds.silent = false
    for (let round = 0; round < 3; round++) await rounds.next()
    expect(ids(rounds.lists.at(-1))).toEqual([first.url, second.url])
    const recovered = rounds.logged.filter(
      ({ message }) => message === 'discovery URL answered again',
    )
    expect(recovered).toMatchObject([{ level: 'info', fields: { discoveryUrl: lds.url } }])
  })

  it('removes a server after three silent rounds, and then calls it less often', async () => {
    const plc = await start()
    const rounds = new Rounds(standard([plc.url]))
    await rounds.first()
    await clock.advance(60_000)
    await rounds.first()
    const { port } = plc
    await plc.close()
    expect(ids(await rounds.next())).toEqual([plc.url])
    for (let round = 0; round < 9; round++) await rounds.next()
    expect(rounds.lists.at(-1)).toEqual([])
    const again = await start({ port })
    for (let round = 0; round < 3; round++) await rounds.next()
    expect(ids(rounds.lists.at(-1))).toEqual([again.url])
  })

  it('sends no list at first while no URL answers, and then an empty list', async () => {
    const plc = await start()
    plc.silent = true
    const rounds = new Rounds(standard([plc.url]))
    await rounds.first()
    await rounds.next()
    expect(rounds.lists).toEqual([])
    await rounds.next()
    expect(rounds.lists).toEqual([[]])
    expect(rounds.leftOut).toEqual([[plc.url, 'no answer in time']])
    const { accepted } = plc
    while (plc.accepted === accepted) await rounds.next()
    expect(rounds.leftOutChanges).toBe(1)
  })
})
