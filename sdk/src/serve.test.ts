import { stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { type DiscoverResponse, DiscoveryHandlerClient } from '@akrijs/proto/discovery'
import { aborted, type Logger, silentLogger } from '@akrijs/runtime'
import { credentials } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../test/support/eventually.js'
import { freePort } from '../../test/support/free-port.js'
import { listenerWarnings } from '../../test/support/listener-warnings.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { type DiscoveryHandlerDefinition, defineDiscoveryHandler } from './handler/handler.js'
import { serve } from './serve.js'
import { SimulatedAgent } from './testing/simulated-agent.js'

let directory: string
let agent: SimulatedAgent
const stop: (() => Promise<void>)[] = []

beforeEach(async () => {
  directory = await temporaryDirectory()
  agent = await SimulatedAgent.start({ directory })
})
afterEach(async () => {
  for (const close of stop.splice(0)) await close()
  await agent.close()
})

type Discover = DiscoveryHandlerDefinition<Record<string, unknown>>['discover']
const handlerOf = (name: string, discover: Discover) =>
  defineDiscoveryHandler({
    name,
    shared: false,
    details: z.record(z.string(), z.unknown()),
    discover,
  })
async function start(
  handlers: Parameters<typeof serve>[0],
  options: Parameters<typeof serve>[1] = {},
) {
  const server = await serve(handlers, {
    directory,
    log: silentLogger,
    environment: {},
    ...options,
  })
  stop.push(() => server.close())
  return server
}
const oneDevice: Discover = async function* () {
  yield [{ id: 'one' }]
}

describe('serve', () => {
  it('refuses a handler whose socket would be that of the agent', async () => {
    await expect(start(handlerOf('agent-registration', oneDevice))).rejects.toThrow(
      'a handler agent-registration would serve at the socket of the agent',
    )
  })

  it('A4 an idle handler registers again after a restart of the agent', async () => {
    const { metricsPort } = await start(handlerOf('idle', oneDevice), { metricsPort: 0 })
    // Before it has the answer, it would only try again what has failed.
    await eventually(async () =>
      expect((await fetch(`http://127.0.0.1:${metricsPort}/readyz`)).status).toBe(200),
    )
    agent.die()
    await agent.comeBack()
    expect(await agent.registration('idle', 2)).toMatchObject({
      endpointType: 'UDS',
      shared: false,
    })
    expect(await (await agent.discover('idle')).next()).toMatchObject([{ id: 'one' }])
  })

  it('serves several handlers from one process and removes their sockets at the end', async () => {
    const server = await start([handlerOf('first', oneDevice), handlerOf('second', oneDevice)])
    for (const name of ['first', 'second'])
      expect(await (await agent.discover(name)).next()).toMatchObject([{ id: 'one' }])
    await server.close()
    await server.closed
    for (const name of ['first', 'second'])
      await expect(stat(path.join(directory, `${name}.sock`))).rejects.toThrow('ENOENT')
  })

  it('registers the whole path of its socket, also for a relative directory', async () => {
    await start(handlerOf('one', oneDevice), { directory: path.relative(process.cwd(), directory) })
    expect((await agent.registration('one')).endpoint).toBe(path.join(directory, 'one.sock'))
  })

  it('adds few listeners to each signal for many handlers and discoveries', async () => {
    const names = Array.from({ length: 12 }, (_, index) => `handler-${index}`)
    const warnings = await listenerWarnings(async () => {
      const server = await start(names.map((name) => handlerOf(name, oneDevice)))
      for (const name of [...names, ...names.map(() => 'handler-0')])
        expect(await (await agent.discover(name)).next()).toMatchObject([{ id: 'one' }])
      await server.close()
    })
    expect(warnings).toEqual([])
  })

  it.each([['127.0.0.1'], ['::1']])('serves on the network when POD_IP is %s', async (podIp) => {
    const port = await freePort(podIp)
    await start(handlerOf('far', oneDevice), { environment: { POD_IP: podIp }, port })
    expect(await agent.registration('far')).toMatchObject({ endpointType: 'NETWORK' })
    expect(await (await agent.discover('far')).next()).toMatchObject([{ id: 'one' }])
  })

  it('refuses a socket that another server listens on, and a file that is no socket', async () => {
    await start(handlerOf('taken', oneDevice))
    await expect(start(handlerOf('taken', oneDevice))).rejects.toThrow(
      /taken\.sock is served by another process already/,
    )
    await writeFile(path.join(directory, 'plain.sock'), 'x')
    await expect(start(handlerOf('plain', oneDevice))).rejects.toThrow(/it is not a socket/)
  })

  it.each<[string, unknown, RegExp]>([
    ['nothing', undefined, /or an array of such results; this is undefined$/],
    ['a definition', { name: 'x', shared: true }, /this is a mapping$/],
    ['a module', { default: handlerOf('x', oneDevice) }, /a mapping; give its default export$/],
    ['a hole', [handlerOf('x', oneDevice), undefined], /this is an array with undefined$/],
  ])('refuses %s in place of a handler', async (_, handlers, message) => {
    // @ts-expect-error at run time a program is JavaScript
    const serving = start(handlers)
    await expect(serving).rejects.toMatchObject({
      code: 'AKRI_ERR_INVALID_HANDLER',
      message: expect.stringMatching(message),
    })
  })

  it('refuses what is no port, and gives each handler a port of its own', async () => {
    const handlers = [handlerOf('a', oneDevice), handlerOf('b', oneDevice)]
    const on = (options: object) => start(handlers, { podIp: '127.0.0.1', ...options })
    await expect(on({ port: 'x' })).rejects.toThrow('port is "x"; it must be a port, 0 to 65535')
    await expect(on({ port: Number.NaN })).rejects.toThrow('it must be a port, 0 to 65535')
    await expect(on({ metricsPort: -1 })).rejects.toThrow('metricsPort is -1; it must be a port')
    await expect(on({ port: 65_535 })).rejects.toThrow(
      'port is 65535, and 2 handlers take a port each; the last port is 65535',
    )
    const { endpoints } = await on({ port: 0 })
    for (const endpoint of endpoints.values())
      expect(Number(new URL(endpoint).port)).toBeGreaterThan(1024)
  })

  it('refuses a file in place of its directory, and does not wait for an agent', async () => {
    const file = path.join(directory, 'file')
    await writeFile(file, '')
    await expect(start(handlerOf('a', oneDevice), { directory: file })).rejects.toThrow(
      `${file} is not a directory; give the directory of the agent's agent-registration.sock`,
    )
  })

  it('frees the health port if a handler cannot be served', async () => {
    await writeFile(path.join(directory, 'plain.sock'), 'x')
    const metricsPort = await freePort()
    await expect(start(handlerOf('plain', oneDevice), { metricsPort })).rejects.toThrow(
      /not a socket/,
    )
    await start(handlerOf('good', oneDevice), { metricsPort })
  })

  it('is ready only while it is registered, and has that in its metrics', async () => {
    const { metricsPort } = await start(handlerOf('seen', oneDevice), { metricsPort: 0 })
    const get = (at: string) => fetch(`http://127.0.0.1:${metricsPort}${at}`)
    const counted = async () => (await get('/metrics')).text()
    await eventually(async () => expect((await get('/readyz')).status).toBe(200))
    expect(await counted()).toContain('akri_handler_registered{handler="seen"} 1\n')
    agent.die()
    await eventually(async () =>
      expect(await (await get('/readyz')).text()).toContain('not registered with the agent: seen'),
    )
    expect((await get('/healthz')).status).toBe(200)
    expect(await counted()).toContain('akri_handler_registered{handler="seen"} 0\n')
    expect((await get('/other')).status).toBe(404)
  })

  it('has metrics of 0 before the first registration', async () => {
    agent.die()
    const { metricsPort } = await start(handlerOf('early', oneDevice), { metricsPort: 0 })
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
    for (const name of [
      'registered',
      'streams',
      'lists_total',
      'errors_total',
      'registrations_total',
    ])
      expect(text).toContain(`akri_handler_${name}{handler="early"} 0\n`)
  })
})

describe('a discovery over the socket', () => {
  it('tells what it left out, and sends its list again if only that has changed', async () => {
    const goOn = new AbortController()
    const shy = handlerOf('shy', async function* ({ leaveOut, reportProblem }) {
      leaveOut('b', 'HTTP status 401', 'a detail that stays here')
      yield [{ id: 'one' }]
      await aborted(goOn.signal)
      leaveOut('b', 'HTTP status 401', 'another detail')
      yield [{ id: 'one' }]
      reportProblem('one', 'credential refused')
      yield [{ id: 'one' }]
    })
    const logged: object[] = []
    const log: Logger = {
      ...silentLogger,
      debug: (fields, message) => void logged.push({ ...fields, message }),
      child: () => log,
    }
    const { metricsPort } = await start(shy, { metricsPort: 0, log })
    const session = await agent.discover('shy')
    expect(await session.next()).toMatchObject([{ id: 'one' }])
    const leftOut = { id: 'b', reason: 'HTTP status 401', detail: 'a detail that stays here' }
    expect(logged).toContainEqual({
      devices: [leftOut],
      reasons: { 'HTTP status 401': 1 },
      message: 'devices left out',
    })
    expect(session.reports).toEqual([
      { reason: 'HTTP status 401', count: 1, ids: ['b'], listed: false },
    ])
    const metrics = async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
    expect(await metrics()).toContain('akri_handler_left_out_devices{handler="shy"} 1\n')
    goOn.abort()
    expect(await session.next()).toMatchObject([{ id: 'one' }])
    expect(session.reports).toEqual([
      { reason: 'credential refused', count: 1, ids: ['one'], listed: true },
    ])
    expect(await metrics()).toContain('akri_handler_problem_devices{handler="shy"} 1\n')
  })

  it('gives an agent of another implementation lists only', async () => {
    const goOn = new AbortController()
    const shy = handlerOf('shy', async function* ({ leaveOut }) {
      leaveOut('b', 'HTTP status 401')
      yield [{ id: 'one' }]
      await aborted(goOn.signal)
      yield [{ id: 'one' }]
      yield [{ id: 'one' }, { id: 'b' }]
    })
    await start(shy)
    const { endpoint } = await agent.registration('shy')
    const client = new DiscoveryHandlerClient(`unix:${endpoint}`, credentials.createInsecure())
    const stream = client.discover({ discoveryDetails: '', discoveryProperties: {} })
    const got: { devices: number; reports: number }[] = []
    stream.on('error', () => {})
    stream.on('data', ({ devices, reports }: DiscoverResponse) => {
      got.push({ devices: devices.length, reports: reports.length })
      goOn.abort()
    })
    await eventually(() => expect(got.at(-1)?.devices).toBe(2))
    stream.cancel()
    client.close()
    expect(got).toEqual([
      { devices: 1, reports: 0 },
      { devices: 2, reports: 0 },
    ])
  })

  it('ends with INVALID_ARGUMENT, INTERNAL or UNKNOWN by the cause, and serves on', async () => {
    const handler = handlerOf('odd', async function* ({ details }) {
      if (details.list === 'bad') yield [{ id: '' }]
      if (details.fail === true) throw new TypeError('no such bus')
      yield [{ id: 'fine' }]
    })
    await start(handler)
    const ending = async (details: string) => (await agent.discover('odd', { details })).next()
    await expect(ending('- 1')).rejects.toMatchObject({ status: 'INVALID_ARGUMENT' })
    await expect(ending('list: bad')).rejects.toMatchObject({ status: 'INTERNAL' })
    await expect(ending('fail: true')).rejects.toThrow(/^UNKNOWN: .*no such bus/)
    expect(await ending('')).toMatchObject([{ id: 'fine' }])
  })

  it('ends a loop over a discovery by its close, and not by a failure', async () => {
    await start(
      handlerOf('loop', async function* ({ details, signal }) {
        yield [{ id: 'a' }]
        if (details.fail === true) throw new TypeError('no such bus')
        await aborted(signal)
      }),
    )
    const failing = await agent.discover('loop', { details: 'fail: true' })
    const failed = (async () => {
      for await (const list of failing) {
        expect(list).toHaveLength(1)
        // The discovery has ended before the loop asks for the next list.
        await expect(failing.next()).rejects.toThrow(/^UNKNOWN: .*no such bus/)
      }
    })()
    await expect(failed).rejects.toThrow(/^UNKNOWN: .*no such bus/)

    const session = await agent.discover('loop')
    const lists: unknown[] = []
    const loop = (async () => {
      for await (const list of session) lists.push(list)
    })()
    await eventually(() => expect(lists).toHaveLength(1))
    await session.close()
    await loop
  })

  it('does not send an equal list again, and keeps the stream of a handler open', async () => {
    await start(
      handlerOf('same', async function* () {
        yield [{ id: 'a' }, { id: 'b' }]
        yield [{ id: 'b' }, { id: 'a' }]
        yield [{ id: 'c' }]
      }),
    )
    const session = await agent.discover('same')
    const lists = [await session.next()]
    while (lists.at(-1)?.[0]?.id !== 'c') lists.push(await session.next())
    expect(lists.length).toBeLessThanOrEqual(2)
  })

  it('sends the empty list for a handler that returns without one', async () => {
    await start(handlerOf('none', async function* () {}))
    expect(await (await agent.discover('none')).next()).toEqual([])
  })

  it('closes even if a handler yields without end and another ignores its signal', async () => {
    const flood = handlerOf('flood', async function* () {
      for (let n = 0; ; n++) yield [{ id: `n${n}` }]
    })
    const deaf = handlerOf('deaf', async function* () {
      yield [{ id: 'x' }]
      await new Promise(() => undefined)
    })
    const server = await start([flood, deaf])
    const sessions = [await agent.discover('flood'), await agent.discover('deaf')]
    for (const session of sessions) await session.next()
    await server.close()
    await expect(
      (async () => {
        for (;;) await sessions[1]?.next()
      })(),
    ).rejects.toMatchObject({ status: 'UNAVAILABLE' })
  })
})
