import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { type DiscoverResponse, DiscoveryHandlerClient } from '@akrijs/proto/discovery'
import { credentials } from '@grpc/grpc-js'
import { expect, it, vi } from 'vitest'
import { defineDiscoveryHandler } from './handler.js'
import { serveDiscovery } from './handler-server.js'
import { silentLogger } from './logger.js'
import { ServeMetrics } from './metrics.js'

it('holds only a few lists for an agent that does not read, and then gives it the newest', async () => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-slow-'))
  const rounds = 300
  let round = 0
  const handler = defineDiscoveryHandler({
    name: 'slow',
    shared: false,
    details: { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } },
    async *discover() {
      for (; round < rounds; round++) yield [{ id: `n${round}`, properties: { FILL: 'x'.repeat(200_000) } }]
      yield [{ id: 'last' }]
      round++
    },
  })
  const address = `unix:${path.join(directory, 'slow.sock')}`
  const metrics = new ServeMetrics()
  const server = await serveDiscovery({ handler, address, log: silentLogger, metrics: metrics.of('slow') })
  const client = new DiscoveryHandlerClient(address, credentials.createInsecure())
  try {
    const stream = client.discover({ discoveryDetails: '', discoveryProperties: {} })
    stream.on('error', () => undefined)
    stream.pause()
    await vi.waitFor(() => expect(round).toBe(rounds + 1), { timeout: 15_000 })
    const got: string[] = []
    stream.on('data', ({ devices }: DiscoverResponse) => got.push(devices[0]?.id ?? ''))
    stream.resume()
    await vi.waitFor(() => expect(got.at(-1)).toBe('last'), { timeout: 5000 })
    // 16 are what this client itself keeps for its reader; a list or two are on the way.
    expect(got.length).toBeLessThanOrEqual(20)
    stream.cancel()
  } finally {
    client.close()
    await server.close()
    await rm(directory, { recursive: true, force: true })
  }
})
