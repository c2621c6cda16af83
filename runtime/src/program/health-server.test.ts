import net from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../clock/clock.js'
import { ManualClock } from '../testing/index.js'
import { type HealthServer, type HealthServerOptions, serveHealth } from './health-server.js'
import { type Logger, silentLogger } from './logger.js'

let health: HealthServer
const sockets: net.Socket[] = []

async function open(
  options: Partial<HealthServerOptions> = {},
  log: Logger = silentLogger,
  clock: Clock = systemClock,
) {
  const standard = { ready: () => undefined, metrics: async () => 'a 1' }
  health = await serveHealth(
    { port: 0, host: '127.0.0.1', ...standard, ...options },
    { log, clock },
  )
}

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await health.close()
})

const get = async (path: string, init: RequestInit = {}) => {
  const answer = await fetch(`http://127.0.0.1:${health.port}${path}`, init)
  return [answer.status, await answer.text()]
}

function connect(localAddress: string): net.Socket {
  const socket = net.connect({ host: '127.0.0.1', port: health.port ?? 0, localAddress })
  socket.on('error', () => {})
  sockets.push(socket)
  return socket
}

describe('the port of health and metrics', () => {
  it('answers whether the program is ready and healthy, and its metrics', async () => {
    await open({ ready: () => 'starting', healthy: async () => undefined })
    expect(await get('/readyz')).toEqual([503, 'starting\n'])
    expect(await get('/healthz?verbose')).toEqual([200, 'ok\n'])
    expect(await get('/metrics')).toEqual([200, 'a 1\n'])
    expect(await get('/metrics', { method: 'HEAD' })).toEqual([200, ''])
    expect(await get('/')).toEqual([404, 'there are /healthz, /readyz and /metrics\n'])
    expect(await get('/metrics', { method: 'PUT' })).toEqual([405, 'only GET\n'])
    expect(await get('/metrics', { method: 'POST', body: 'x' })).toEqual([405, 'only GET\n'])
  })

  it('answers a probe while another address keeps hundreds of connections open', async () => {
    await open()
    for (let number = 0; number < 300; number++) {
      const socket = connect(`127.0.0.${2 + (number % 10)}`)
      if (number % 2 === 0) socket.write('GET /healthz HTTP/1.1\r\nhost: a\r\n')
    }
    for (let round = 0; round < 5; round++) expect(await get('/healthz')).toEqual([200, 'ok\n'])
  })

  it('answers a probe while other addresses read no metrics', async () => {
    await open({ metrics: async () => 'a 1\n'.repeat(1_000_000) })
    for (let number = 0; number < 64; number++) {
      const socket = connect(`127.0.0.${2 + (number % 4)}`)
      socket.pause()
      socket.write('GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n')
    }
    for (let round = 0; round < 5; round++) expect(await get('/healthz')).toEqual([200, 'ok\n'])
  })

  it('answers hundreds of probes of one address at once', async () => {
    await open()
    for (let round = 0; round < 200; round++) expect((await get('/readyz'))[0]).toBe(200)
  })

  it('collects the metrics at most ten times a second, however many requests come', async () => {
    let collections = 0
    const clock = new ManualClock()
    const count = async () => String(++collections)
    await open({ metrics: count }, silentLogger, clock)
    expect(await get('/metrics')).toEqual([200, '1\n'])
    const answers = Promise.all([get('/metrics'), get('/metrics')])
    await clock.untilSleeping(1)
    expect(collections).toBe(1)
    await clock.advance(100)
    await answers
    expect(collections).toBe(2)
  })

  it('asks the program once for many requests at the same time', async () => {
    let atWork = 0
    let most = 0
    await open({
      metrics: async () => {
        most = Math.max(most, ++atWork)
        await new Promise((resolve) => setImmediate(resolve))
        atWork--
        return 'a 1'
      },
    })
    const answers = await Promise.all(Array.from({ length: 12 }, () => get('/metrics')))
    expect(answers.every(([status]) => status === 200)).toBe(true)
    expect(most).toBe(1)
  })

  it('logs the error behind an answer 500, and does not send it', async () => {
    const logged: unknown[] = []
    const error = new TypeError('a secret')
    const log: Logger = { ...silentLogger, error: ({ err }) => logged.push(err) }
    await open({ metrics: () => Promise.reject(error) }, log)
    const [status, text] = await get('/metrics')
    expect([status, text]).toEqual([500, expect.not.stringContaining('secret')])
    expect(logged).toEqual([error])
  })

  it('is another free port, with a warning, if the port is in use', async () => {
    await open()
    const first = health
    const warnings: unknown[] = []
    const log: Logger = { ...silentLogger, warn: (fields) => warnings.push(fields) }
    await open({ port: first.port ?? 0 }, log)
    expect(await get('/readyz')).toEqual([200, 'ok\n'])
    const err = expect.objectContaining({ code: 'EADDRINUSE' })
    expect(warnings).toEqual([{ port: first.port, usedPort: health.port, err }])
    await first.close()
  })

  it('is none, with a warning, if the program may not listen anywhere', async () => {
    const warnings: unknown[] = []
    const log: Logger = { ...silentLogger, warn: (fields) => warnings.push(fields) }
    // An address of documentation, which no machine has.
    await open({ port: 8080, host: '192.0.2.1' }, log)
    expect(health.port).toBeUndefined()
    expect(warnings).toEqual([{ port: 8080, err: expect.anything() }])
  })
})
