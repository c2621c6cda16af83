import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Open62541 } from '../../../handlers/opcua/test-peers/open62541.js'
import { serverEnvironment, stacks } from '../../../test/opcua/stacks.js'
import { alone } from '../../../test/support/alone.js'
import { endProcess, untilPrinted } from '../../../test/support/peer-process.js'
import { BuiltBroker, type RunningBroker } from '../test-peers/broker.js'

// Servers of three stacks, in a network namespace whose link can be cut.
alone()

const NAMESPACE = `akri-sub-${process.pid}`
const inside = ['ip', 'netns', 'exec', NAMESPACE]
const canCut = spawnSync('ip', ['netns', 'add', NAMESPACE]).status === 0
const cannotCut = canCut ? [] : ['the right to make network namespaces']

const PORT = 48_400
const environment = {
  OPCUA_DISCOVERY_URL: `opc.tcp://127.0.0.1:${PORT}/`,
  OPCUA_SILENCE_SECONDS: '2',
}
const patience = { timeout: 120_000, interval: 100 }

let broker: BuiltBroker
const servers = new Set<ChildProcess>()

beforeAll(async () => {
  broker = await BuiltBroker.build()
  if (canCut) cut(false)
})

afterEach(async () => {
  broker.kill()
  for (const server of servers) await kill(server)
  if (canCut) cut(false)
})

afterAll(() => {
  broker.remove()
  if (canCut) execFileSync('ip', ['netns', 'delete', NAMESPACE])
})

/** Cuts the only link of the namespace, or connects it again. */
function cut(isCut: boolean): void {
  execFileSync('ip', ['-n', NAMESPACE, 'link', 'set', 'lo', isCut ? 'down' : 'up'])
}

async function start([command = '', ...args]: readonly string[]): Promise<ChildProcess> {
  const server = spawn('ip', [...inside.slice(1), command, ...args], {
    env: serverEnvironment,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  servers.add(server)
  await untilPrinted(server, /listening/)
  return server
}

async function kill(server: ChildProcess): Promise<void> {
  servers.delete(server)
  await endProcess(server)
}

/** Resolves when the broker has printed more values. */
async function goesOn(running: RunningBroker): Promise<void> {
  const before = running.values().length
  await expect.poll(() => running.values().length, patience).toBeGreaterThan(before + 1)
  await expect.poll(() => running.reported('connected'), patience).toBe('yes')
}

for (const { stack, missing: peers, command } of stacks) {
  const missing = [...peers, ...cannotCut]
  const needs = missing.length > 0 ? ` (needs ${missing.join(', ')})` : ''
  describe.skipIf(missing.length > 0)(`the OPC UA subscriber with ${stack}${needs}`, () => {
    beforeAll(async () => {
      if (stack === 'open62541') await Open62541.build()
    }, 180_000)

    it('follows a server that is killed and started again', async () => {
      const server = await start(command(PORT))
      const running = broker.run(environment, inside)
      await goesOn(running)
      await kill(server)
      await expect.poll(() => running.reported('connected'), patience).toMatch(/^no: ./)
      await start(command(PORT))
      await goesOn(running)
      await expect.poll(() => running.sockets(), patience).toBe(1)
      expect(await running.end('SIGTERM')).toEqual([0, null])
    })

    it('follows a server again after a cut of the network', async () => {
      await start(command(PORT))
      const running = broker.run(environment, inside)
      await goesOn(running)
      for (let round = 0; round < 2; round++) {
        cut(true)
        await expect.poll(() => running.reported('connected'), patience).toMatch(/^no: ./)
        cut(false)
        await goesOn(running)
      }
      expect(running.printed.err).toMatch(/the server was silent for \d/)
      await expect.poll(() => running.sockets(), patience).toBe(1)
      expect(await running.end('SIGTERM')).toEqual([0, null])
    })
  })
}

const { missing = [] } = stacks.find(({ stack }) => stack === 'open62541') ?? {}
describe.skipIf(missing.length > 0 || !canCut)(
  'the OPC UA subscriber with a server that wants a user',
  () => {
    it('ends with a message', async () => {
      await Open62541.build()
      await start([Open62541.server, '-p', String(PORT), '-u', 'operator:secret'])
      const running = broker.run(environment, inside)
      expect(await running.end()).toEqual([1, null])
      expect(running.printed.err).toContain('Cannot find ANONYMOUS user token policy')
    })
  },
)

describe('the OPC UA subscriber with a server that has no answer', () => {
  it('connects again in growing pauses', async () => {
    const times: number[] = []
    const server = net.createServer((socket) => {
      times.push(performance.now())
      socket.destroy()
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const running = broker.run({ OPCUA_DISCOVERY_URL: `opc.tcp://127.0.0.1:${port}/` })
    await expect.poll(() => times.length, patience).toBeGreaterThan(3)
    const gaps = times.slice(1, 4).map((time, index) => time - (times[index] ?? 0))
    // A slow machine makes the pauses longer, never shorter.
    expect(gaps.map((gap, index) => gap > 450 * 2 ** index)).toEqual([true, true, true])
    expect(await running.end('SIGTERM')).toEqual([0, null])
    server.close()
  })
})
