import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:http2'
import os from 'node:os'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../test/support/eventually.js'
import { serve } from './serve.js'

it('does not remove the socket of a second server that starts while the first closes', async () => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-serving-'))
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
    await rm(directory, { recursive: true, force: true })
  }
})
