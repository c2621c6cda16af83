import path from 'node:path'
import { RegistrationService } from '@akrijs/proto/discovery'
import { type Clock, type Logger, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { keepRegistered } from './registration.js'
import { SimulatedAgent } from './testing/simulated-agent.js'

let directory: string
let stop: AbortController
let registration: Promise<void> | undefined

beforeEach(async () => {
  directory = await temporaryDirectory()
  stop = new AbortController()
})
afterEach(async () => {
  stop.abort()
  await registration
})

function start(
  clock: Clock,
  onRegistered: (registered: boolean) => void = () => undefined,
  log: Logger = silentLogger,
) {
  registration = keepRegistered({
    name: 'test',
    endpoint: path.join(directory, 'test.sock'),
    endpointType: 0,
    shared: true,
    agentSocket: path.join(directory, 'agent-registration.sock'),
    log,
    signal: stop.signal,
    onRegistered,
    clock,
  })
  return registration
}

async function agentThatAnswers(answer: (count: number) => status): Promise<Server> {
  let count = 0
  const server = new Server()
  server.addService(RegistrationService, {
    registerDiscoveryHandler: (
      _: ServerUnaryCall<object, object>,
      reply: sendUnaryData<object>,
    ) => {
      const code = answer(++count)
      if (code === status.OK) reply(null, {})
      else reply({ code, details: 'not now' })
    },
  })
  const address = `unix:${path.join(directory, 'agent-registration.sock')}`
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    )
  })
  return server
}

describe('keepRegistered', () => {
  it('waits for an agent, at most a second between attempts', async () => {
    const clock = new ManualClock()
    void start(clock)
    for (let attempt = 0; attempt < 8; attempt++) {
      await clock.untilSleeping()
      expect(clock.sleeping[0]).toBeLessThanOrEqual(1000)
      await clock.advance(1000)
    }
    await using agent = await SimulatedAgent.start({ directory })
    await clock.untilSleeping()
    await clock.advance(1000)
    expect(await agent.registration('test')).toMatchObject({ shared: true, endpointType: 'UDS' })
  })

  it('says once why the agent is not reached, and what to do', async () => {
    const clock = new ManualClock()
    const lines: unknown[] = []
    const log: Logger = { ...silentLogger, info: (fields) => lines.push(fields) }
    void start(clock, undefined, log)
    for (let attempt = 0; attempt < 3; attempt++) {
      await clock.untilSleeping()
      await clock.advance(1000)
    }
    const problem = expect.stringMatching(/^there is no such socket \(ENOENT\)/)
    const agentSocket = path.join(directory, 'agent-registration.sock')
    expect(lines).toEqual([{ agentSocket, problem }])
  })

  it('retries with a growing back-off while the agent refuses', async () => {
    const waits: number[] = []
    const clock: Clock = {
      monotonicMs: () => 0,
      wallMs: () => 0,
      async sleep(ms) {
        waits.push(ms)
      },
    }
    const registered = vi.fn()
    const server = await agentThatAnswers((count) =>
      count > 7 ? status.OK : status.RESOURCE_EXHAUSTED,
    )
    try {
      void start(clock, registered)
      await eventually(() => expect(registered).toHaveBeenCalledWith(true))
      expect(waits).toHaveLength(7)
      for (const [index, ceiling] of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000].entries()) {
        expect(waits[index]).toBeGreaterThanOrEqual(ceiling / 2)
        expect(waits[index]).toBeLessThanOrEqual(ceiling)
      }
    } finally {
      server.forceShutdown()
    }
  })

  it('reports the registration only while the connection lasts', async () => {
    const clock = new ManualClock()
    const seen: boolean[] = []
    const agent = await SimulatedAgent.start({ directory })
    void start(clock, (registered) => seen.push(registered))
    await eventually(() => expect(seen).toEqual([true]))
    agent.die()
    await clock.untilSleeping()
    expect(seen).toEqual([true, false])
    await agent.close()
  })

  it('ends at once when the signal is aborted: waiting, refused or registered', async () => {
    const clock = new ManualClock()
    const waiting = start(clock)
    await clock.untilSleeping()
    stop.abort()
    await waiting
    expect(clock.sleeping).toEqual([])

    stop = new AbortController()
    await using agent = await SimulatedAgent.start({ directory })
    const registered = start(clock)
    await agent.registration('test')
    stop.abort()
    await registered
  })
})
