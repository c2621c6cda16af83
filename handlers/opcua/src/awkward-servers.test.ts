import net from 'node:net'
import { describe, expect, it, type TestContext } from 'vitest'
import { encodeFault, writeResponseHeader } from '../test-peers/encode-response.js'
import {
  application,
  DISCOVERY_SERVER,
  endpoint,
  type SimulatedServer,
} from '../test-peers/simulated-server.js'
import { discoveryServer, ids, Rounds, standard, start } from './testing/rounds.js'
import type { BinaryWriter } from './ua-tcp/binary-writer.js'

// Servers as found in the field, and answers that OPC 10000-4, -6 and -12 allow or forbid. Each is
// asked beside a good server, which is always found.

interface Expected {
  readonly urls: readonly string[]
  readonly offered?: readonly string[]
  /** The id, and the reason. */
  readonly leftOut?: readonly (readonly [string, string])[]
}
type Awkward = readonly [name: string, arrange: () => Promise<Expected>]

/** Not the address where other servers are asked. */
const ELSEWHERE = '127.0.0.2'
const HOSTS = new Map([
  ['localhost', ['127.0.0.1', '::1']],
  ['plc.test', ['127.0.0.1']],
  ['two-networks.test', ['127.0.0.9', '127.0.0.1']],
])
const FIND_SERVERS_RESPONSE = 425
const HOST_UNKNOWN = 'host name does not resolve'
const BREAKS = 'breaks the protocol'

const listedAs = (server: SimulatedServer, ...discoveryUrls: string[]) => {
  server.applications = server.applications.map((self) => ({ ...self, discoveryUrls }))
}

/** A server that announces itself at these URLs; `PORT` stands for its port. */
async function announcing(host: string, ...announced: string[]): Promise<SimulatedServer> {
  const server = await start({ name: `at ${host}`, host })
  listedAs(server, ...announced.map((url) => url.replace('PORT', String(server.port))))
  return server
}

/** A server that a test changes: offered at its URL, or left out with the reason. */
const one = (change: (server: SimulatedServer) => void, reason?: string) =>
  async function arrange(): Promise<Expected> {
    const server = await start()
    change(server)
    const { url } = server
    return reason === undefined
      ? { urls: [url], offered: [url] }
      : { urls: [url], leftOut: [[url, reason]] }
  }

/** A server with this answer to FindServers, which names no server. */
const answering = (reason: string, ...applications: ReturnType<typeof application>[]) =>
  async function arrange(): Promise<Expected> {
    const server = await start()
    server.applications = applications
    const id = applications[0]?.discoveryUrls.find((url) => url.trim() !== '')?.trim()
    return { urls: [server.url], leftOut: [[id ?? applications[0]?.applicationUri ?? '', reason]] }
  }

const atUrls = (...discoveryUrls: string[]) => application({ discoveryUrls })

/** A server whose encoded answer to FindServers is this body. */
const encoded = (reason: string, write: (writer: BinaryWriter) => BinaryWriter) =>
  one(({ responses }) => {
    responses.set('FindServers', write(writeResponseHeader(FIND_SERVERS_RESPONSE)).bytes())
  }, reason)

/** A server that sends its answers in another way. */
const sending = (send: NonNullable<SimulatedServer['send']>, reason?: string) =>
  one((server) => {
    server.send = send
  }, reason)

/** The message headers before the body of an answer: frame, channel, token, sequence, request. */
const HEADERS = { sequence: 16, request: 20, body: 24 } as const
/** In an answer: the type, the time and the handle come before the status. */
const STATUS = HEADERS.body + 4 + 8 + 4

/** A server that changes the bytes of its answers to requests. */
const changing = (change: (answer: Buffer) => void, reason?: string) =>
  sending((socket, answers, to) => {
    for (const answer of answers) {
      if (to === 'MSG') change(answer)
      socket.write(answer)
    }
  }, reason)

/** A discovery server and its servers; `PORT` stands for a port where nothing listens. */
const listing = (reason: string, ...announced: string[]) =>
  async function arrange(): Promise<Expected> {
    const [lds, ended] = [await discoveryServer(), await start()]
    await ended.close()
    const urls = announced.map((url) =>
      url.replace('PORT', String(ended.port)).replace('LDS', String(lds.port)),
    )
    lds.applications = [
      DISCOVERY_SERVER,
      ...urls.map((url, index) =>
        application({ applicationUri: `urn:${index}`, discoveryUrls: [url] }),
      ),
    ]
    const idOf = (url: string, index: number) =>
      urls.indexOf(url) === urls.lastIndexOf(url) ? url : `${url} (urn:${index})`
    return { urls: [lds.url], leftOut: urls.map((url, index) => [idOf(url, index), reason]) }
  }

const OFFERED: readonly Awkward[] = [
  // server-list.test.ts has more spellings.
  ...['opc.tcp://0.0.0.0:PORT', 'opc.tcp://PLC-IN-THE-HALL:PORT', 'opc.tcp://:PORT'].map(
    (announced): Awkward => [
      `announces ${announced}`,
      async () => {
        const { url } = await announcing(ELSEWHERE, announced)
        return { urls: [url], offered: [url] }
      },
    ],
  ),
  [
    'announces the address of the other of two hosts with one port',
    async () => {
      const one = await announcing('127.0.0.3', 'opc.tcp://127.0.0.1:PORT')
      const two = await start({ name: 'two', host: '127.0.0.4', port: one.port })
      two.applications = one.applications
      return { urls: [one.url, two.url], offered: [one.url, two.url] }
    },
  ],
  [
    'announces several hosts that mean nothing here',
    async () => {
      const hosts = ['https://x/', 'opc.tcp://PLC-IN-THE-HALL:1', 'opc.tcp://[::]:1']
      const { url } = await announcing(ELSEWHERE, ...hosts)
      return { urls: [url], offered: [url] }
    },
  ],
  [
    'is asked and announced under five spellings',
    async () => {
      const server = await announcing('127.0.0.1', 'opc.tcp://plc.test:PORT')
      const origin = `opc.tcp://plc.test:${server.port}`
      const withDot = `opc.tcp://plc.test.:${server.port}`
      const again = await start({ name: 'at 127.0.0.1' })
      listedAs(again, `opc.tcp://PLC.TEST:${server.port}/`)
      return { urls: [server.url, withDot, `${origin}/`, origin, again.url], offered: [origin] }
    },
  ],
  ...[
    { answers: true, isFirst: true },
    { answers: true, isFirst: false },
    { answers: false, isFirst: true },
  ].map(
    ({ answers, isFirst }): Awkward => [
      `${answers ? 'answers' : 'does not answer'}, and is listed ${isFirst ? 'before' : 'after'} ` +
        'another application with its URL',
      async () => {
        const server = await start({ name: 'one' })
        const two = application({ applicationUri: 'urn:two', discoveryUrls: [server.url] })
        const lds = await start()
        const both = [...server.applications, two]
        lds.applications = [DISCOVERY_SERVER, ...(isFirst ? both : both.reverse())]
        if (!answers) await server.close()
        const leftOut = [[`${server.url} (urn:two)`, 'another application has its URL']] as const
        return { urls: [lds.url], offered: [server.url], leftOut }
      },
    ],
  ),
  [
    'is listed with a port and without a host by the discovery server of its machine',
    async () => {
      const { port } = await announcing(ELSEWHERE, 'opc.tcp://:PORT')
      const lds = await start({ host: ELSEWHERE })
      const listed = application({
        applicationUri: `urn:test:at ${ELSEWHERE}`,
        discoveryUrls: [`opc.tcp://:${port}`],
      })
      lds.applications = [DISCOVERY_SERVER, listed]
      return { urls: [lds.url], offered: [`opc.tcp://${ELSEWHERE}:${port}`] }
    },
  ],
  [
    'announces no host of this network, and is asked by its address and its name',
    async () => {
      const { url, port } = await announcing('127.0.0.1', 'opc.tcp://PLC-IN-THE-HALL:PORT')
      const byName = `opc.tcp://plc.test:${port}/`
      const leftOut = [[byName, 'listed with another URL']] as const
      return { urls: [byName, url], offered: [url], leftOut }
    },
  ],
  [
    'announces no host of this network, and is asked by a name that has another address too',
    async () => {
      const { url, port } = await announcing('127.0.0.1', 'opc.tcp://PLC-IN-THE-HALL:PORT')
      const byName = `opc.tcp://two-networks.test:${port}/`
      return { urls: [byName, url], offered: [byName, url] }
    },
  ],
  [
    'is a ClientAndServer with an endpoint',
    one((server) => {
      server.applications = [application({ applicationType: 2, discoveryUrls: [server.url] })]
      server.endpoints = server.applications.map((self) => endpoint(self))
    }),
  ],
  [
    'has no name and no URI',
    one((server) => {
      const nameless = { applicationUri: '', applicationName: '', productUri: '' }
      server.applications = [application({ ...nameless, discoveryUrls: [server.url] })]
    }),
  ],
  [
    'is asked at its IPv6 address',
    async () => {
      const server = await start({ host: '::1' })
      listedAs(server, `opc.tcp://[::]:${server.port}`)
      return { urls: [server.url], offered: [server.url] }
    },
  ],
  [
    'listens at the second address of its name',
    async () => {
      const { url, port } = await start()
      return { urls: [`opc.tcp://two-networks.test:${port}`], offered: [url] }
    },
  ],
  [
    'fails GetEndpoints',
    one(({ responses }) => void responses.set('GetEndpoints', encodeFault(0x8001_0000))),
  ],
  [
    'closes its side of the connection after an answer',
    sending((socket, answers, to) => {
      for (const answer of answers) socket.write(answer)
      if (to === 'MSG') socket.end()
    }),
  ],
  ['has an uncertain status', changing((answer) => answer.writeUInt32LE(0x4000_0000, STATUS))],
  [
    'is one of a redundant set',
    async () => {
      const [one, two] = [await start({ name: 'one' }), await start({ name: 'two' })]
      one.applications = [...one.applications, ...two.applications]
      two.applications = one.applications
      return { urls: [one.url, two.url], offered: [one.url, two.url] }
    },
  ],
  [
    'is listed under a name that does not resolve, and runs beside its discovery server',
    async () => {
      const server = await start()
      const lds = await discoveryServer(server)
      const unknown = application({ applicationUri: 'urn:other', discoveryUrls: ['opc.tcp://B:1'] })
      const [self] = server.applications
      const url = `opc.tcp://PLC-IN-THE-HALL:${server.port}`
      const twin = application({ applicationUri: 'urn:twin', discoveryUrls: [`${url}/`] })
      const listed = [unknown, twin, application({ ...self, discoveryUrls: [url] })]
      lds.applications = [DISCOVERY_SERVER, ...listed]
      return {
        urls: [lds.url],
        offered: [`opc.tcp://127.0.0.1:${server.port}`],
        leftOut: [
          ['opc.tcp://B:1', HOST_UNKNOWN],
          [`${url}/`, HOST_UNKNOWN],
        ],
      }
    },
  ],
  [
    'is at the address of its discovery server',
    one((server) => {
      server.applications = [DISCOVERY_SERVER, ...server.applications]
    }),
  ],
]

const LEFT_OUT: readonly Awkward[] = [
  ['has type 7', answering('unknown application type', application({ applicationType: 7 }))],
  ['has no URL', answering('no discovery URL', atUrls())],
  [
    'is a ClientAndServer without endpoints',
    one((server) => {
      server.applications = [application({ applicationType: 2, discoveryUrls: [server.url] })]
      server.endpoints = []
    }, 'ClientAndServer without a working endpoint'),
  ],
  ['reports nothing', encoded('reports no server', (writer) => writer.uint32(0))],
  ['ends its answer in the middle', encoded(BREAKS, (writer) => writer)],
  [
    'does not have FindServers',
    one(
      ({ responses }) => void responses.set('FindServers', encodeFault(0x800b_0000)),
      'error of the server',
    ),
  ],
  [
    'aborts its answer',
    changing((answer) => {
      answer.write('A', 3, 'latin1')
      answer.writeUInt32LE(0x8003_0000, HEADERS.body)
      answer.writeUInt32LE(0xffff_ffff, HEADERS.body + 4)
    }, 'error of the server'),
  ],
  [
    'speaks HTTP',
    sending((socket) => {
      socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
    }, 'does not speak UA-TCP'),
  ],
  ['closes each connection', sending((socket) => void socket.end(), 'connection closed')],
  [
    'breaks each connection',
    sending((socket) => void socket.resetAndDestroy(), 'connection closed'),
  ],
  [
    'closes the connection after half of its answer',
    sending((socket, answers, to) => {
      for (const answer of answers)
        if (to === 'MSG') socket.end(answer.subarray(0, answer.length / 2))
        else socket.write(answer)
    }, 'connection closed'),
  ],
  [
    'stops in the middle of its answer',
    sending((socket, answers, to) => {
      for (const answer of answers) socket.write(to === 'MSG' ? answer.subarray(0, 30) : answer)
      return to === 'MSG' ? 'silent' : undefined
    }, 'no answer in time'),
  ],
  [
    'accepts no connection',
    async () => {
      const server = await start()
      await server.close()
      return { urls: [server.url], leftOut: [[server.url, 'connection refused']] }
    },
  ],
  [
    'has a discovery URL whose name does not resolve',
    async () => ({
      urls: ['opc.tcp://no-such-plc:4840/'],
      leftOut: [['opc.tcp://no-such-plc:4840/', HOST_UNKNOWN]],
    }),
  ],
  [
    'has a discovery URL without a port',
    async () => ({
      urls: ['opc.tcp://plc.test/'],
      leftOut: [['opc.tcp://plc.test/', 'unusable discovery URL']],
    }),
  ],
  [
    'is a discovery server without servers',
    async () => {
      const lds = await discoveryServer()
      return { urls: [lds.url], leftOut: [[lds.url, 'discovery server without servers']] }
    },
  ],
  [
    'is a discovery server that lists another, which lists the first',
    async () => {
      const [one, two] = [await discoveryServer(), await discoveryServer()]
      const at = ({ url }: SimulatedServer) => ({ ...DISCOVERY_SERVER, discoveryUrls: [url] })
      one.applications = two.applications = [at(one), at(two)]
      const serverCapabilities = ['LDS']
      one.records = [{ serverName: 'two', discoveryUrl: two.url, serverCapabilities }]
      two.records = [{ serverName: 'one', discoveryUrl: one.url, serverCapabilities }]
      const reason = 'discovery server without servers'
      return { urls: [one.url, two.url], leftOut: [one, two].map(({ url }) => [url, reason]) }
    },
  ],
  [
    'is a discovery server that does not list itself',
    async () => {
      const lds = await discoveryServer()
      lds.applications = [atUrls('opc.tcp://PLC-IN-THE-HALL:4840')]
      return { urls: [lds.url], leftOut: [[lds.url, 'a discovery server answers']] }
    },
  ],
  [
    'is listed, and a discovery server answers',
    async () => {
      const [lds, other] = [await discoveryServer(), await discoveryServer()]
      lds.applications = [DISCOVERY_SERVER, atUrls(other.url)]
      return { urls: [lds.url], leftOut: [[other.url, 'a discovery server answers']] }
    },
  ],
  [
    'is listed under a name that does not resolve, and another server answers beside the list',
    async () => {
      const [lds, other] = [await discoveryServer(), await start({ name: 'another' })]
      const url = `opc.tcp://PLC-IN-THE-HALL:${other.port}`
      lds.applications = [DISCOVERY_SERVER, atUrls(url)]
      return { urls: [lds.url], leftOut: [[url, HOST_UNKNOWN]] }
    },
  ],
  [
    'is listed under names that do not resolve',
    listing(HOST_UNKNOWN, 'opc.tcp://A:PORT', 'opc.tcp://B:PORT/', 'opc.tcp://C:LDS/'),
  ],
  [
    'is listed at the URL of its discovery server',
    listing(
      'has the address of its discovery server',
      'opc.tcp://127.0.0.1:LDS/',
      'opc.tcp://plc.test:LDS/UA',
      'opc.tcp://localhost:LDS',
    ),
  ],
  [
    'is listed at 0.0.0.0',
    listing('address is valid on its own machine only', 'opc.tcp://0.0.0.0:PORT'),
  ],
  [
    'is listed at a URL of another transport, as another one is',
    listing('no opc.tcp URL', 'https://localhost/', 'https://localhost/'),
  ],
  [
    'is announced by multicast without a usable URL, or does not answer',
    async () => {
      const [lds, ended] = [await discoveryServer(), await start()]
      await ended.close()
      const urls = ['', 'https://plc1/', 'opc.tcp://PLC-IN-THE-HALL:1', ended.url]
      lds.records = urls.map((discoveryUrl) => ({
        serverName: 'heard',
        discoveryUrl,
        serverCapabilities: ['DA'],
      }))
      return {
        urls: [lds.url],
        leftOut: [
          ['heard', 'no discovery URL'],
          ['https://plc1/', 'no opc.tcp URL'],
          ['opc.tcp://PLC-IN-THE-HALL:1', HOST_UNKNOWN],
          [ended.url, 'connection refused'],
        ],
      }
    },
  ],
]

const hasIPv6 = await new Promise<boolean>((resolve) => {
  const server = net.createServer()
  server
    .once('error', () => resolve(false))
    .listen(0, '::1', () => server.close(() => resolve(true)))
})

async function outcomeOf({ urls }: Expected) {
  const good = await start({ name: 'good' })
  const rounds = new Rounds(standard([...urls, good.url]), {
    resolve: async (host) => HOSTS.get(host.toLowerCase()) ?? [],
  })
  const offered = ids(await rounds.first())
  expect(offered).toContain(good.url)
  return { offered: offered.filter((id) => id !== good.url), leftOut: rounds.leftOut }
}

describe('a server that', () => {
  const check = async ([name, arrange]: Awkward, context: TestContext) => {
    if (!hasIPv6 && name.includes('IPv6')) context.skip('there is no IPv6 here')
    const expected = await arrange()
    const { offered = [], leftOut = [] } = expected
    const outcome = await outcomeOf(expected)
    expect(outcome.offered.sort()).toEqual([...offered].sort())
    expect(outcome.leftOut.sort()).toEqual([...leftOut].sort())
  }

  it.for(OFFERED)('%s is offered', check)
  it.for(LEFT_OUT)('%s is left out, with the reason', check)
})
