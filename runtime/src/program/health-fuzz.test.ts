import net from 'node:net'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { fuzz } from '../../../test/support/fuzz.js'
import { serveHealth } from './health-server.js'
import { type Logger, silentLogger } from './logger.js'

const line = fc.constantFrom(
  'GET /metrics HTTP/1.1',
  'POST /healthz HTTP/1.1',
  'GET /%zz?a#b HTTP/1.0',
  'CONNECT a:1 HTTP/1.1',
  'PRI * HTTP/2.0',
  'host: a',
  'content-length: 5',
  'content-length: -1',
  'transfer-encoding: chunked',
  'expect: 100-continue',
  'connection: upgrade',
  'upgrade: websocket',
  '',
  'fffffffffffffffff',
)
const bytes = fc.oneof(
  fc
    .array(fc.oneof({ weight: 5, arbitrary: line }, fc.string()), { maxLength: 12 })
    .map((lines) => Buffer.from(lines.map((each) => `${each}\r\n`).join(''))),
  fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
)

const { parameters, timeoutMs } = fuzz({ runs: 150, msPerRun: 50 })

it(
  'the port of health and metrics answers others after any bytes',
  async () => {
    const errors: unknown[] = []
    const log: Logger = { ...silentLogger, error: (fields) => errors.push(fields) }
    const options = { port: 0, host: '127.0.0.1', ready: () => undefined, metrics: async () => '' }
    const health = await serveHealth(options, { log })
    const send = (sent: Buffer, localAddress: string) =>
      new Promise<void>((resolve) => {
        const socket = net.connect({ host: '127.0.0.1', port: health.port ?? 0, localAddress })
        socket.on('error', () => resolve()).on('close', () => resolve())
        socket.resume().end(sent)
      })
    try {
      let count = 0
      await fc.assert(
        fc.asyncProperty(bytes, (sent) => send(sent, `127.0.0.${2 + (count++ % 200)}`)),
        parameters,
      )
      expect((await fetch(`http://127.0.0.1:${health.port}/readyz`)).status).toBe(200)
      expect(errors).toEqual([])
    } finally {
      await health.close()
    }
  },
  timeoutMs,
)
