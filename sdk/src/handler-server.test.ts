import { once } from 'node:events'
import http2 from 'node:http2'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { expect, it, vi } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { defineDiscoveryHandler } from './handler/handler.js'
import { serveDiscovery } from './handler-server.js'
import { ServeMetrics } from './metrics.js'

it('keeps only the newest list for an agent that does not read', async () => {
  const directory = await temporaryDirectory()
  const rounds = 100
  let round = 0
  const handler = defineDiscoveryHandler({
    name: 'slow',
    shared: false,
    details: {
      '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) },
    },
    async *discover() {
      // One list is more than the 64 KiB that a peer takes without reading.
      for (; round < rounds; round++)
        yield Array.from({ length: 4 }, (_, n) => ({
          id: `n${round}-${n}`,
          properties: { FILL: 'x'.repeat(50_000) },
        }))
      yield [{ id: 'last' }]
      round++
    },
  })
  const socketPath = path.join(directory, 'slow.sock')
  const metrics = new ServeMetrics(['slow']).of('slow')
  const sent = vi.spyOn(metrics.lists, 'inc')
  const server = await serveDiscovery({
    handler,
    address: `unix:${socketPath}`,
    log: silentLogger,
    metrics,
  })
  // Not a client of grpc-js: that one takes in whatever comes, read or not.
  const session = http2.connect('http://localhost', { path: socketPath })
  try {
    const request = {
      ':method': 'POST',
      ':path': '/v0.DiscoveryHandler/Discover',
      te: 'trailers',
      'content-type': 'application/grpc',
    }
    const stream = session.request(request)
    stream.end(Buffer.alloc(5))
    await once(stream, 'response')
    await eventually(() => expect(round).toBe(rounds + 1))
    expect(sent).not.toHaveBeenCalled()
    let bytes = 0
    let tail = ''
    stream.on('data', (part: Buffer) => {
      bytes += part.length
      tail = `${tail}${part.toString('latin1')}`.slice(-20)
    })
    await eventually(() => expect(tail).toContain('last'))
    expect(bytes).toBeLessThan(2 * 201_000)
    expect(sent).toHaveBeenCalledTimes(2)
    stream.close(http2.constants.NGHTTP2_CANCEL)
  } finally {
    session.destroy()
    await server.close()
  }
})
