import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, readdir } from 'node:fs/promises'
import { connect } from 'node:http2'
import net from 'node:net'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../test/support/eventually.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { defineDiscoveryHandler } from './handler/handler.js'
import { serve } from './serve.js'
import { SimulatedAgent } from './testing/simulated-agent.js'

const isRoot = process.getuid?.() === 0

it.skipIf(!isRoot)(
  `serves beside the socket of another user${isRoot ? '' : ' (needs root, for other users)'}`,
  async () => {
    const directory = await temporaryDirectory()
    const agent = await SimulatedAgent.start({ directory })
    const handlers = ['moved', 'first'].map((name) =>
      defineDiscoveryHandler({
        name,
        shared: false,
        details: z.unknown(),
        async *discover() {
          yield [{ id: name }]
        },
      }),
    )
    // The handler was in a Pod of another user, which still runs.
    const before = net.createServer().listen(path.join(directory, 'moved.sock'))
    await once(before, 'listening')
    await chown(path.join(directory, 'moved.sock'), 4712, 4712)
    // As the agent of another user opens the directory.
    await chown(directory, 4711, 4711)
    await chmod(directory, 0o1770)
    const options = { directory, environment: {}, log: silentLogger }
    const serving = await serve(handlers, options)
    try {
      expect(Object.fromEntries(serving.endpoints)).toEqual({
        moved: path.join(directory, 'moved-0.sock'),
        first: path.join(directory, 'first.sock'),
      })
      for (const { name } of handlers) {
        await agent.registration(name)
        expect(await (await agent.discover(name)).next()).toMatchObject([{ id: name }])
      }
    } finally {
      await serving.close()
      before.close()
      await once(before, 'close')
      await agent.close()
    }
    expect(await readdir(directory)).toEqual([])
  },
)

it('does not remove the socket of a second server that starts while the first closes', async () => {
  const directory = await temporaryDirectory()
  const socket = path.join(directory, 'slow.sock')
  const handler = defineDiscoveryHandler({
    name: 'slow',
    shared: false,
    details: z.unknown(),
    async *discover() {
      yield [{ id: 'one' }]
    },
  })
  const serveIt = () => serve(handler, { directory, environment: {}, log: silentLogger })
  const first = await serveIt()
  // The peer reads nothing, so the stream cannot end, and the server waits for the peer.
  const peer = connect('http://localhost', { settings: { initialWindowSize: 0 }, path: socket })
  const stream = peer.request({
    ':method': 'POST',
    ':path': '/v0.DiscoveryHandler/Discover',
    'content-type': 'application/grpc',
  })
  for (const side of [peer, stream]) side.on('error', () => {})
  stream.end(Buffer.alloc(5))
  await once(stream, 'response')
  let closed = false
  const closing = first.close().then(() => {
    closed = true
  })
  await eventually(() => expect(existsSync(socket)).toBe(false))
  const second = await serveIt()
  try {
    expect(closed).toBe(false)
    await closing
    expect(existsSync(socket)).toBe(true)
  } finally {
    peer.destroy()
    await second.close()
  }
})
