import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { ApiClient, type Configuration, objectKey, type Reflector } from '@akrijs/kube'
import { silentLogger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { PropertySources } from './property-sources.js'

const reference = { kind: 'Secret', key: objectKey('default', 'lab') } as const
const metadata = { namespace: 'default', name: 'lab', resourceVersion: '7' }
const configuration = {
  metadata: { namespace: 'default', name: 'cam' },
  spec: {
    discoveryHandler: {
      discoveryProperties: [{ name: 'p', valueFrom: { secretKeyRef: { name: 'lab', key: 'k', optional: true } } }],
    },
  },
} as unknown as Configuration

let clock: ManualClock
let server: http.Server
let client: ApiClient
let sources: PropertySources
/** What the server has. */
let items: object[]
/** What it answers instead of that. */
let refuses: number | undefined
let watches: Set<http.ServerResponse>
let stop: AbortController
let ran: Promise<void>

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  items = []
  refuses = undefined
  watches = new Set()
  server = http.createServer(({ url = '' }, response) => {
    if (refuses !== undefined) response.writeHead(refuses).end(JSON.stringify({ reason: 'InternalError', message: 'no' }))
    else if (!url.includes('watch=true')) response.end(JSON.stringify({ metadata: { resourceVersion: '5' }, items }))
    else {
      response.flushHeaders()
      watches.add(response)
      response.on('close', () => watches.delete(response))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  client = new ApiClient({
    access: { server: new URL(`http://127.0.0.1:${port}`), credentials: async () => ({}) },
    clock,
    userAgent: 'test',
  })
  const configurations = { list: () => [configuration], onChange: () => {} } as unknown as Reflector<Configuration>
  sources = new PropertySources({ client, clock, log: silentLogger, random: () => 0.5, configurations })
  stop = new AbortController()
  ran = sources.run(stop.signal)
})

afterEach(async () => {
  stop.abort()
  await ran
  client.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

/** The server fails for a moment: what watches it is cut off, and does not come in again. */
async function failing(): Promise<void> {
  await eventually(() => expect(watches.size).toBe(1))
  refuses = 500
  for (const watch of watches) watch.destroy()
  await eventually(() => expect(sources.look(reference)).rejects.toThrow('cannot be read'))
}

it('A7 knows again that there is no Secret once the API server answers again', async () => {
  expect(await sources.look(reference)).toBeUndefined()
  await failing()
  refuses = undefined
  await eventually(async () => {
    await clock.advance(1000)
    expect(await sources.look(reference)).toBeUndefined()
  })
})

it('has what it knew of a Secret while the API server does not answer', async () => {
  items = [{ metadata, data: { k: Buffer.from('secret').toString('base64') } }]
  expect(await sources.look(reference)).toEqual(new Map([['k', Buffer.from('secret')]]))
  await eventually(() => expect(watches.size).toBe(1))
  refuses = 500
  for (const watch of watches) watch.destroy()
  await eventually(() => expect(watches.size).toBe(0))
  await clock.advance(60_000)
  expect((await sources.look(reference))?.size).toBe(1)
})

it('says what a server answered that does not allow it', async () => {
  refuses = 403
  await expect(sources.look(reference)).rejects.toThrow(/Secret default\/lab cannot be read: .*403/)
})

it('tells of each change of a Secret, and of its end', async () => {
  let told = 0
  sources.onChange(() => told++, stop.signal)
  await sources.look(reference)
  await eventually(() => expect(watches.size).toBe(1))
  const before = told
  const send = (type: string) => {
    const line = { type, object: { metadata, data: { k: Buffer.from('new').toString('base64') } } }
    for (const watch of watches) watch.write(`${JSON.stringify(line)}\n`)
  }
  send('ADDED')
  await eventually(async () => expect((await sources.look(reference))?.get('k')).toEqual(Buffer.from('new')))
  send('DELETED')
  await eventually(async () => expect(await sources.look(reference)).toBeUndefined())
  expect(told).toBe(before + 2)
})
