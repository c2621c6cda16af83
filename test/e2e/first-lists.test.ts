import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { accessOfCluster, isClusterSince } from '../cluster/support/client.js'
import { FaultProxy } from '../cluster/support/fault-proxy.js'
import { HostController } from './support/host-controller.js'
import { writeKubeconfig } from './support/kubeconfig.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, setAvailable, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, World } from './support/world.js'
import { HostWebhook } from './webhook/host-webhook.js'

// How programs get the collections that they watch, as a proxy before the API server sees it.

/** The first minor version of Kubernetes that gives first lists as streams. */
const STREAMS_SINCE = 34
const SECRET = 'webhook-certificates'
/** The annotation of the bookmark after the last object. */
const END = '"k8s.io/initial-events-end":"true"'

const lacks = missingHere()
const hasStreams = lacks === undefined && (await isClusterSince(STREAMS_SINCE))

interface Exchange {
  /** The path and the selectors. */
  readonly collection: string
  readonly query: URLSearchParams
  readonly status: number | undefined
  /** What has come of the answer. */
  text: string
}

describe.skipIf(lacks !== undefined)(`the first lists of programs${unlessHere}`, () => {
  const open: (() => unknown)[] = []
  let world: World
  let exchanges: Exchange[]

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
  })

  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close()
    await world.clear([NODE_1])
  })

  afterAll(() => world?.close())

  /** The kubeconfig of a proxy that records. */
  async function recorded(): Promise<string> {
    const proxy = await FaultProxy.open(await accessOfCluster())
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-l-'))
    open.push(
      () => rm(directory, { recursive: true }),
      () => proxy.close(),
    )
    exchanges = []
    proxy.onAnswer = (url, answer) => {
      const { pathname, searchParams: query } = new URL(url, proxy.access.server)
      const selectors = ['labelSelector', 'fieldSelector'].map((name) => query.get(name) ?? '')
      const collection = [pathname, ...selectors].join(' ').trimEnd()
      const exchange = { collection, query, status: answer.statusCode, text: '' }
      exchanges.push(exchange)
      answer.on('data', (chunk) => {
        exchange.text += String(chunk)
      })
    }
    const file = path.join(directory, 'config')
    await writeKubeconfig(file, proxy.access.server)
    return file
  }

  const programs: readonly [string, (kubeconfig: string) => Promise<unknown>][] = [
    [
      'agent',
      async (KUBECONFIG) => {
        const agent = await NodeAgent.create(NODE_1, { KUBECONFIG })
        open.push(() => agent.dispose())
        await agent.start()
        await world.apply(echoYaml('cam', ['foo0'], 1))
        await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
      },
    ],
    [
      'controller',
      async (KUBECONFIG) => {
        const controller = new HostController('one', world.namespace, { KUBECONFIG })
        open.push(() => controller.stop())
        await controller.lead()
      },
    ],
    [
      'webhook',
      async (KUBECONFIG) => {
        await world.api('Secret').create(world.namespace, { metadata: { name: SECRET } })
        const env = { KUBECONFIG, POD_NAMESPACE: world.namespace, AKRI_CERTIFICATE_SECRET: SECRET }
        const webhook = await HostWebhook.create(env)
        open.push(() => webhook.stop())
        await webhook.start()
      },
    ],
  ]
  const isWatch = ({ query }: Exchange) => query.get('watch') === 'true'
  const isStream = ({ query }: Exchange) => query.get('sendInitialEvents') === 'true'
  const watched = () => [...new Set(exchanges.filter(isWatch).map(({ collection }) => collection))]
  const requestsOf = (collection: string) =>
    exchanges.filter((exchange) => exchange.collection === collection)

  /** A stream gives the list and goes on as the watch. A young API server can end the first. */
  function expectStream(collection: string): void {
    const requests = requestsOf(collection)
    expect(
      requests.filter((request) => !isWatch(request)),
      collection,
    ).toEqual([])
    const accepted = requests.find(({ status }) => status === 200)
    expect(accepted, collection).toMatchObject({ text: expect.stringContaining(END) })
    expect(Object.fromEntries(accepted?.query ?? [])).toMatchObject({
      sendInitialEvents: 'true',
      resourceVersion: '0',
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: 'true',
    })
  }

  /** Lists, each with a watch of its own, as the server refuses streams. */
  function expectLists(collection: string): void {
    const requests = requestsOf(collection)
    const shown = requests.map((exchange) => {
      const kind = isStream(exchange) ? 'stream' : isWatch(exchange) ? 'watch' : 'list'
      return `${kind} ${exchange.status}`
    })
    const where = `${collection}: ${shown.join(', ')}`
    const accepted = requests.filter(({ status }) => status === 200)
    expect(accepted.filter(isStream), where).toEqual([])
    const lists = accepted.filter((exchange) => !isWatch(exchange))
    const watches = accepted.filter(isWatch)
    // Two caches of one collection list it at the same time.
    expect(lists, where).not.toEqual([])
    expect(watches.length, where).toBeGreaterThanOrEqual(lists.length)
    const begins = watches.map(({ query }) => query.get('resourceVersion'))
    for (const { text } of lists)
      expect(begins, where).toContain(JSON.parse(text).metadata.resourceVersion)
  }

  it.each(programs)(
    'of the %s are streams, or lists of a server without streams',
    async (_, start) => {
      await start(await recorded())
      expect(watched()).toContain('/apis/akri.sh/v0/configurations')
      expect(exchanges.some(isStream)).toBe(true)
      for (const collection of watched())
        await eventually(() => (hasStreams ? expectStream : expectLists)(collection))
    },
  )
})
