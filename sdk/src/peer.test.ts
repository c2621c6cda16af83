import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { silentLogger } from '@akrijs/runtime'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { defineDiscoveryHandler } from './handler/handler.js'
import { serve } from './serve.js'

const PYTHON = '/usr/bin/python3'
const missing = spawnSync(PYTHON, ['-c', 'import grpc, grpc_tools']).status !== 0
const needs = missing ? ' (needs the Debian packages python3-grpcio and python3-grpc-tools)' : ''

it.skipIf(missing)(
  `serves an agent of another gRPC stack, and tells it INVALID_ARGUMENT${needs}`,
  async () => {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-peer-'))
    const handler = defineDiscoveryHandler({
      name: 'peer',
      shared: true,
      details: z.object({ id: z.string() }),
      async *discover({ details }) {
        yield [{ id: details.id, properties: { A: 'b' } }]
      },
    })
    const server = await serve(handler, { directory, log: silentLogger, environment: {} })
    try {
      const agent = path.join(import.meta.dirname, '../test-peers/agent.py')
      const protos = path.join(import.meta.dirname, '../../proto')
      const { stdout } = await promisify(execFile)(PYTHON, [agent, directory, protos, 'peer'], {
        timeout: 60_000,
      })
      const lines: unknown[] = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      expect(lines).toEqual([
        { name: 'peer', endpoint: path.join(directory, 'peer.sock'), type: 0, shared: true },
        [{ id: 'cam', properties: { A: 'b' } }],
        { status: 'INVALID_ARGUMENT', details: expect.stringContaining('id: ') },
      ])
    } finally {
      await server.close()
      await rm(directory, { recursive: true, force: true })
    }
  },
)
