import { type Device, DiscoveryProperties, type Logger, type Network, readNetwork, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { application, DISCOVERY_SERVER, endpoint, SimulatedServer } from '../test-peers/simulated-server.js'
import { opcuaDetails } from './details.js'
import { defineOpcuaHandler, type OpcuaHandlerOptions } from './handler.js'

const ROUND_MS = 10_000
/** How long a host name is waited for. */
const NAME_MS = 3000
/** For long answers, which a busy machine does not give in a second or two. */
const UNHURRIED = { timeouts: { connectMs: 15_000, totalMs: 15_000 } }

let clock: ManualClock
let stop: AbortController
const servers: SimulatedServer[] = []

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  stop = new AbortController()
})

afterEach(async () => {
  stop.abort()
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function start(options: Parameters<typeof SimulatedServer.start>[0] = {}): Promise<SimulatedServer> {
  const server = await SimulatedServer.start(options)
  servers.push(server)
  return server
}

/** A discovery server that lists these. */
async function discoveryServer(...listed: readonly SimulatedServer[]): Promise<SimulatedServer> {
  const lds = await start()
  list(lds, listed)
  return lds
}

function list(lds: SimulatedServer, listed: readonly SimulatedServer[]): void {
  lds.applications = [DISCOVERY_SERVER, ...listed.flatMap(({ applications }) => applications)]
  lds.endpoints = [endpoint(DISCOVERY_SERVER)]
}

const standard = (discoveryUrls: readonly string[], more: object = {}) => ({
  opcuaDiscoveryMethod: { standard: { discoveryUrls } },
  ...more,
})

/** A discovery whose rounds a test lets pass. */
class Rounds {
  readonly lists: Device[][] = []
  readonly logged: { readonly level: string; readonly message: string; readonly fields: Readonly<Record<string, unknown>> }[] = []
  readonly ended: Promise<void>

  constructor(details: object, options: Partial<OpcuaHandlerOptions> = {}) {
    const ownNetworks = (): Network[] => []
    const timeouts = { connectMs: 1500, totalMs: 1500 }
    const handler = defineOpcuaHandler({ clock, ownNetworks, timeouts, ...options })
    const properties = new DiscoveryProperties()
    this.ended = this.#collect(
      openDiscovery(handler, { details: JSON.stringify(details), properties, signal: stop.signal, log: this.#logger({}) }),
    )
    // Awaited by those tests that expect an end.
    this.ended.catch(() => {})
  }

  /** Waits until the first round is over. */
  async first(): Promise<Device[] | undefined> {
    await untilRoundIsOver()
    return this.lists.at(-1)
  }

  async next(): Promise<Device[] | undefined> {
    await untilRoundIsOver()
    await clock.advance(ROUND_MS)
    return this.first()
  }

  async #collect(lists: AsyncIterable<Device[]>): Promise<void> {
    for await (const one of lists) this.lists.push(one)
  }

  #logger(bound: Readonly<Record<string, unknown>>): Logger {
    const log = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) => {
      this.logged.push({ level, message, fields: { ...bound, ...fields } })
    }
    return {
      ...silentLogger,
      info: log('info'),
      warn: log('warn'),
      error: log('error'),
      child: (fields) => this.#logger({ ...bound, ...fields }),
    }
  }
}

/** What waits for the next round waits for longer than what waits for a name, or not at all where the clock has overtaken the round. */
async function untilRoundIsOver(): Promise<void> {
  const { signal } = stop
  await clock.untilSleeping()
  const isOver = () => clock.sleeping.some((ms) => ms === 0 || ms > NAME_MS)
  while (!signal.aborted && !isOver()) await new Promise((resolve) => setImmediate(resolve))
}

const ids = (devices: readonly Device[] = []) => devices.map(({ id }) => id)

describe('the OPC UA handler', () => {
  it('offers a server that answers for itself, with what it says of itself and of its endpoints', async () => {
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

  it('offers the servers that a discovery server lists, and not the discovery server', async () => {
    const [one, two] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(one, two)
    const rounds = new Rounds(standard([lds.url]))
    expect(ids(await rounds.first())).toEqual([one.url, two.url])
  })

  it('D3 offers a server once, wherever else it is found', async () => {
    const [one, two] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(one, two, one)
    // Not only of those that come one after the other.
    const rounds = new Rounds(standard([two.url, lds.url, one.url, lds.url]))
    expect(ids(await rounds.first())).toEqual([two.url, one.url])
    expect(rounds.logged).toEqual([])
  })

  it('D3 goes on where a URL fails, and says once how it fails', async () => {
    const [one, silent, broken] = [await start(), await start(), await start()]
    silent.silent = true
    await broken.close()
    const rounds = new Rounds(standard([broken.url, 'opc.tcp://no-such-host.invalid:4840/', silent.url, one.url]))
    expect(ids(await rounds.first())).toEqual([one.url])
    await rounds.next()
    const warnings = rounds.logged.filter(({ level }) => level === 'warn')
    expect(warnings.map(({ fields }) => [fields.discoveryUrl, fields.code]).sort()).toEqual(
      [
        [broken.url, 'AKRI_ERR_OPCUA_UNREACHABLE'],
        ['opc.tcp://no-such-host.invalid:4840/', 'AKRI_ERR_OPCUA_UNREACHABLE'],
        [silent.url, 'AKRI_ERR_OPCUA_TIMEOUT'],
      ].sort(),
    )
    expect(rounds.lists).toHaveLength(1)
  })

  it('filters by application name, and does not call those that are not wanted', async () => {
    const [one, two] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(one, two)
    for (const [filter, wanted] of [
      [{ items: ['one'] }, [one.url]],
      [{ items: ['one'], action: 'Exclude' }, [two.url]],
      [{ items: ['ONE'] }, []],
    ] as const) {
      const rounds = new Rounds(standard([lds.url], { applicationNames: filter }))
      expect(ids(await rounds.first())).toEqual(wanted)
      stop.abort()
      stop = new AbortController()
    }
    expect(one.asked).toEqual(['GetEndpoints'])
    expect(two.asked).toEqual(['GetEndpoints'])
  })

  it('adds what a discovery server with the multicast extension has heard of, once it has answered that it is a server', async () => {
    const [listed, heard, silent, other] = [
      await start({ name: 'listed' }),
      await start({ name: 'heard' }),
      await start(),
      await start(),
    ]
    silent.silent = true
    other.endpoints = [endpoint(application({ applicationType: 2, discoveryUrls: [other.url] }))]
    const lds = await discoveryServer(listed)
    const record = (discoveryUrl: string) => ({ serverName: 'whatever', discoveryUrl, serverCapabilities: ['NA'] })
    // The one that is listed, under another spelling.
    const spelling = listed.url.replace(/\/$/, '')
    lds.records = [spelling, heard.url, silent.url, other.url].map(record)
    const rounds = new Rounds(standard([lds.url], { applicationNames: { items: ['listed', 'heard'] } }))
    expect(ids(await rounds.first())).toEqual([listed.url, heard.url])
    silent.silent = false
    lds.records = lds.records.slice(1, 2)
    list(lds, [])
    expect(ids(await rounds.next())).toEqual([heard.url])
  })

  it('asks a discovery server without the multicast extension for it only once', async () => {
    const lds = await discoveryServer(await start())
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    await rounds.next()
    expect(lds.asked).toEqual(['FindServers', 'FindServersOnNetwork', 'FindServers'])
  })

  it('sends nothing while nothing changes, and does not ask known servers in each round', async () => {
    const all = await Promise.all(Array.from({ length: 30 }, (_, index) => start({ name: `server ${index}` })))
    const lds = await discoveryServer(...all)
    const rounds = new Rounds(standard([lds.url]))
    expect(await rounds.first()).toHaveLength(30)
    const asked = () => all.reduce((sum, server) => sum + server.asked.length, 0)
    expect(asked()).toBe(30)
    for (let round = 0; round < 20; round++) await rounds.next()
    expect(asked()).toBe(30)
    // After five minutes they are asked again, a few in each round.
    await clock.untilSleeping()
    await clock.advance(100_000)
    await rounds.first()
    expect(asked()).toBe(40)
    await rounds.next()
    expect(asked()).toBe(50)
    expect(rounds.lists).toHaveLength(1)
  })

  it('asks a discovery server that gives its own URL for those of servers without telling it one', async () => {
    const one = await start({ name: 'one' })
    const lds = await discoveryServer(one)
    lds.echoes = true
    const rounds = new Rounds(standard([lds.url]))
    expect(ids(await rounds.first())).toEqual([one.url])
    await rounds.next()
    expect(lds.asked.filter((service) => service === 'FindServers')).toHaveLength(3)
    expect(rounds.lists).toHaveLength(1)
  })

  it('drops at once what a discovery server lists no more', async () => {
    const [one, two] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(one, two)
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    list(lds, [two])
    expect(ids(await rounds.next())).toEqual([two.url])
  })

  it('offers a server that is listed but does not answer: its discovery server vouches for it', async () => {
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
    expect((await rounds.next())?.[0]?.properties).toMatchObject({ OPCUA_SECURITY_POLICIES: 'None' })
  })

  it('keeps the servers of a silent discovery server as long as they answer themselves', async () => {
    const [one, two] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(one, two)
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    lds.silent = true
    await two.close()
    // Two was heard of a minute ago at most, and then for two rounds not.
    for (let round = 0; round < 7; round++) expect(ids(await rounds.next())).toEqual([one.url, two.url])
    expect(ids(await rounds.next())).toEqual([one.url])
    for (let round = 0; round < 10; round++) expect(ids(await rounds.next())).toEqual([one.url])
    lds.silent = false
    for (let round = 0; round < 3; round++) await rounds.next()
    expect(ids(rounds.lists.at(-1))).toEqual([one.url, two.url])
    const recovered = rounds.logged.filter(({ message }) => message === 'discovery URL answers again')
    expect(recovered).toMatchObject([{ level: 'info', fields: { discoveryUrl: lds.url } }])
  })

  it('loses a server that answers for itself after it has been silent for three rounds, and asks it less often then', async () => {
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

  it('says nothing at first while no URL answers, since nothing is known, and then that there is nothing', async () => {
    const plc = await start()
    plc.silent = true
    const rounds = new Rounds(standard([plc.url]))
    await rounds.first()
    await rounds.next()
    expect(rounds.lists).toEqual([])
    await rounds.next()
    expect(rounds.lists).toEqual([[]])
  })

  it('offers what is listed with a host name that means nothing here by the address of who was asked', async () => {
    const plc = await start()
    const [self] = plc.applications
    plc.applications = [{ ...application(self), discoveryUrls: [`opc.tcp://PLC-IN-THE-HALL:${plc.port}/ua`] }]
    const rounds = new Rounds(standard([plc.url]), { resolve: async () => [] })
    expect(ids(await rounds.first())).toEqual([`${plc.url}ua`])
  })

  it('calls nobody outside of its networks, whatever a discovery server lists or has heard of', async () => {
    const elsewhere = await start({ name: 'elsewhere', host: '127.0.0.2' })
    const lds = await discoveryServer(elsewhere)
    const named = `opc.tcp://kubernetes.default.svc:${elsewhere.port}/`
    lds.applications = [...lds.applications, application({ applicationName: 'named', discoveryUrls: [named] })]
    lds.records = [{ serverName: 'x', discoveryUrl: `${elsewhere.url}heard`, serverCapabilities: [] }]
    const rounds = new Rounds(standard([lds.url]), { resolve: async () => ['127.0.0.2'] })
    expect(ids(await rounds.first())).toEqual([elsewhere.url, named])
    await rounds.next()
    expect(elsewhere.asked).toEqual([])
    expect(elsewhere.accepted).toBe(0)
  })

  it('calls those in networks of this machine', async () => {
    const near = await start({ host: '127.0.0.2' })
    const lds = await discoveryServer(near)
    const network = readNetwork('127.0.0.0/8')
    new Rounds(standard([lds.url]), { ownNetworks: () => (network === undefined ? [] : [network]) })
    await expect.poll(() => near.asked).toEqual(['GetEndpoints'])
  })

  it('leaves out those outside of networks that it is given', async () => {
    const [near, elsewhere] = [await start({ host: '127.0.0.2' }), await start({ name: 'elsewhere' })]
    const lds = await discoveryServer(near, elsewhere)
    const rounds = new Rounds(standard([lds.url], { allowedNetworks: ['127.0.0.2', '10.0.0.0/8'] }))
    expect(ids(await rounds.first())).toEqual([near.url])
    expect(elsewhere.accepted).toBe(0)
  })

  describe('where a discovery server has heard of servers whose names resolve slowly', () => {
    const allowedNetworks = ['127.0.0.1']
    let lds: SimulatedServer
    let urls: readonly string[]
    let answers: (() => void)[]

    const resolve = () => new Promise<readonly string[]>((answer) => answers.push(() => answer(['127.0.0.1'])))

    afterEach(async () => {
      stop.abort()
      for (const answer of answers.splice(0)) answer()
    })

    beforeEach(async () => {
      answers = []
      const plc = await start()
      lds = await discoveryServer()
      urls = Array.from({ length: 8 }, (_, index) => `opc.tcp://plc${index}:${plc.port}/`)
      lds.records = urls.map((discoveryUrl) => ({ serverName: 'x', discoveryUrl, serverCapabilities: [] }))
    })

    it('waits once for all names, and offers the servers in the round after they have resolved', async () => {
      const rounds = new Rounds(standard([lds.url], { allowedNetworks }), { resolve })
      await expect.poll(() => answers.length).toBe(1)
      await clock.advance(NAME_MS)
      expect(await rounds.first()).toEqual([])
      expect(rounds.lists).toEqual([[]])
      // They are asked for one after the other.
      for (const _ of urls) {
        for (const answer of answers.splice(0)) answer()
        await clock.advance(0)
      }
      expect(ids(await rounds.next())).toEqual(urls)
    })

    it('ends with its signal while it waits for names', async () => {
      const details = opcuaDetails.parse(standard([lds.url], { allowedNetworks }))
      const context = { details, properties: new DiscoveryProperties(), signal: stop.signal, log: silentLogger }
      const lists = defineOpcuaHandler({ clock, resolve }).discover(context)[Symbol.asyncIterator]()
      const next = lists.next()
      await expect.poll(() => answers.length).toBeGreaterThan(0)
      stop.abort()
      await expect(next).rejects.toBe(stop.signal.reason)
      expect(clock.sleeping).toEqual([])
    })
  })

  it('leaves out values that are none for an environment variable', async () => {
    const plc = await start()
    const [self] = plc.applications
    const hostile = { applicationUri: 'a\0b', productUri: 'line\nline', applicationName: 'x'.repeat(600) }
    plc.applications = [{ ...application(self), ...hostile, discoveryUrls: [plc.url] }]
    const rounds = new Rounds(standard([plc.url]))
    expect(Object.keys((await rounds.first())?.[0]?.properties ?? {})).toEqual([
      'OPCUA_DISCOVERY_URL',
      'OPCUA_SECURITY_POLICIES',
      'OPCUA_SECURITY_MODES',
      'OPCUA_USER_TOKENS',
    ])
  })

  it('takes a thousand servers, and says when there are more', async () => {
    const lds = await start()
    const urls = Array.from({ length: 1001 }, (_, index) => `opc.tcp://10.1.${index >> 8}.${index & 255}:4840/`)
    lds.applications = [
      DISCOVERY_SERVER,
      ...urls.map((url) =>
        application({ applicationName: 'x'.repeat(400), applicationUri: 'y'.repeat(400), discoveryUrls: [url] }),
      ),
    ]
    const rounds = new Rounds(standard([lds.url]), UNHURRIED)
    expect(ids(await rounds.first())).toEqual(urls.slice(0, 1000))
    expect(rounds.logged.filter(({ level }) => level === 'warn')).toMatchObject([{ fields: { found: 1001, limit: 1000 } }])
  })

  it('of which each says all that it may are left out where a list is full, and the others are offered', async () => {
    const long = (text: string) => text.padEnd(500, 'x')
    const policies = Array.from({ length: 8 }, (_, n) => `http://opcfoundation.org/UA/SecurityPolicy#${`P${n}`.padEnd(60, 'x')}`)
    // One answer has no room for all of them.
    const all = await Promise.all([start(), start(), start(), start()])
    for (const [index, lds] of all.entries()) {
      lds.endpoints = policies.map((securityPolicyUri) => endpoint(DISCOVERY_SERVER, { securityPolicyUri }))
      const listed = Array.from({ length: 250 }, (_, n) =>
        application({
          applicationUri: long(`urn:test:${index}:${n}`),
          applicationName: long('name'),
          productUri: long('urn:test:product'),
          discoveryUrls: [long(`opc.tcp://127.0.0.1:${lds.port}/${n}/`)],
        }),
      )
      lds.applications = [DISCOVERY_SERVER, ...listed]
    }
    const rounds = new Rounds(standard(all.map(({ url }) => url)), UNHURRIED)
    const offered = (await rounds.first())?.length ?? 0
    expect(offered).toBeGreaterThan(500)
    const told = () => rounds.logged.filter(({ message }) => message === 'more servers were found than can be offered')
    // Descriptions, which come in as many rounds as this machine needs for them, make the list too long.
    while (told().length === 0) await rounds.next()
    await rounds.next()
    expect(told().map(({ fields }) => fields)).toEqual([{ offered: expect.any(Number), leftOut: expect.any(Number) }])
  })

  it('ends with its signal, in the middle of a question too', async () => {
    const plc = await start()
    plc.silent = true
    const rounds = new Rounds(standard([plc.url]), { timeouts: { totalMs: 60_000 } })
    await expect.poll(() => plc.connections).toBe(1)
    stop.abort()
    await rounds.ended
    await expect.poll(() => plc.connections).toBe(0)
  })

  it.each([
    [{}, /opcuaDiscoveryMethod/],
    [{ opcuaDiscoveryMethod: {} }, /opcuaDiscoveryMethod: name one method: standard or mdns/],
    [{ opcuaDiscoveryMethod: { standard: {}, mdns: {} } }, /name one method/],
    [standard(['opc.tcp://plc1/']), /discoveryUrls\[0\]: the port is missing; write it out, as in opc.tcp:\/\/host:4840\//],
    [standard(['opc.tcp://a:1', 'http://b:2']), /discoveryUrls\[1\]: "http:\/\/b:2" does not begin with opc.tcp:\/\//],
    [standard([], { applicationNames: {} }), /applicationNames.items/],
    [standard([], { applicationNames: { items: [], action: 'include' } }), /applicationNames.action/],
    [standard([], { allowedNetworks: ['10.0.0.0/33'] }), /allowedNetworks\[0\]: this is no network/],
    [standard([], { discoveryUrls: [] }), /discoveryUrls/],
  ])('refuses details that make no sense: %j', async (details, message) => {
    await expect(new Rounds(details).ended).rejects.toThrow(message)
  })

  it('asks at port 4840 of this machine where no URL is given', async () => {
    const rounds = new Rounds({ opcuaDiscoveryMethod: { standard: {} } })
    await rounds.first()
    const known = rounds.lists.length > 0
    expect(known || rounds.logged[0]?.fields.discoveryUrl === 'opc.tcp://localhost:4840/').toBe(true)
  })

  it('finds nothing, and says so, where there is no URL', async () => {
    const rounds = new Rounds(standard([]))
    expect(await rounds.first()).toEqual([])
    expect(rounds.logged).toMatchObject([{ level: 'warn', message: 'discoveryUrls is empty, so nothing will be found' }])
  })
})
