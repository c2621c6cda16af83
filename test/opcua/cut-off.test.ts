import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, it, type TestContext } from 'vitest'
import { BuiltBroker } from '../../examples/opcua-subscriber/test-peers/broker.js'
import { Open62541 } from '../../handlers/opcua/test-peers/open62541.js'
import { Lan, missingForLan } from '../onvif/lan.js'
import { endProcess, untilPrinted } from '../support/peer-process.js'
import { serverEnvironment, stacks } from './stacks.js'

// A server of each stack on a host, and the broker on another. The switch between them drops all
// packets for longer than the broker, the session and the server's connection wait.

const CUT_MS = 65_000
/** With this the session waits for 60 s, which is the least. */
const SILENCE_SECONDS = '10'
/** Programs start, on a busy machine. */
const START_MS = 120_000
/** The broker's longest pause, and its limits for a connection and a subscription: 50 s. */
const RECOVERY_MS = 60_000
/** Observed after the first values. */
const AFTER_SECONDS = 10
/** Republish for ever, which asyncua answers with Good, makes 235 packets a second. */
const MAX_PACKETS_A_SECOND = 25
const ADDRESS = '10.77.0.1'
const PORT = 4840

interface Second {
  readonly packets: number
  readonly publish: number
  readonly republish: number
}

const python = spawnSync('python3', ['--version']).status === 0 ? [] : ['python3']
let broker: BuiltBroker

beforeAll(async () => {
  broker = await BuiltBroker.build()
  if (stacks.some(({ stack, missing }) => stack === 'open62541' && missing.length === 0))
    await Open62541.build()
})

afterAll(() => {
  broker.kill()
  broker.remove()
})

/** Starts a program on a host for the time of a test. */
function start(
  { onTestFinished }: TestContext,
  lan: Lan,
  host: string,
  command: readonly string[],
): ChildProcess {
  const program = spawn('ip', ['netns', 'exec', lan.namespace(host), ...command], {
    env: serverEnvironment,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => endProcess(program))
  return program
}

async function startServer(test: TestContext, lan: Lan, command: readonly string[]): Promise<void> {
  const server = start(test, lan, 'server', command)
  await untilPrinted(server, /listening/)
}

/** Counts the messages of the broker's host from now on. */
function count(test: TestContext, lan: Lan): Second[] {
  const program = path.join(import.meta.dirname, 'count-messages.py')
  const counter = start(test, lan, 'broker', ['python3', program, 'eth0'])
  const seconds: Second[] = []
  if (counter.stdout !== null)
    createInterface(counter.stdout).on('line', (line) => seconds.push(JSON.parse(line)))
  return seconds
}

const patience = { timeout: RECOVERY_MS, interval: 100 }
const sum = (seconds: readonly Second[], key: keyof Second) =>
  seconds.reduce((total, second) => total + second[key], 0)

/** The largest number of packets in ten seconds: a connection comes with a burst. */
function busiest(seconds: readonly Second[]): number {
  return Math.max(...seconds.map((_, at) => sum(seconds.slice(at, at + 10), 'packets')))
}

describe.concurrent('the OPC UA subscriber, cut off for longer than its session', () => {
  for (const { stack, missing: peers, command } of stacks) {
    const missing = [...peers, ...missingForLan(), ...python]
    const needs = missing.length > 0 ? ` (needs ${missing.join(', ')})` : ''
    it.skipIf(missing.length > 0)(
      `follows ${stack} again without Republish${needs}`,
      async (test) => {
        // The tests run at the same time, so each has its `expect`.
        const { expect, onTestFinished } = test
        const lan = new Lan()
        onTestFinished(() => lan.down())
        await lan.plug({ host: 'server', addresses: [`${ADDRESS}/24`] })
        await lan.plug({ host: 'broker', addresses: ['10.77.0.2/24'] })
        await startServer(test, lan, command(PORT, ADDRESS))
        const seconds = count(test, lan)
        const running = broker.run(
          {
            OPCUA_DISCOVERY_URL: `opc.tcp://${ADDRESS}:${PORT}/`,
            OPCUA_INTERVAL_MS: '1000',
            OPCUA_SILENCE_SECONDS: SILENCE_SECONDS,
          },
          ['ip', 'netns', 'exec', lan.namespace('broker')],
        )
        const isFollowing = (before: number, limit: typeof patience) =>
          expect.poll(() => running.values().length, limit).toBeGreaterThan(before + 1)
        await isFollowing(0, { ...patience, timeout: START_MS })

        await lan.cut('server', true)
        const cutAt = seconds.length
        await expect.poll(() => running.reported('connected'), patience).toMatch(/^no: ./)
        const last = running.values().length
        // The time is what the test is about.
        await sleep(CUT_MS - (seconds.length - cutAt) * 1000)
        expect(running.values().length).toBe(last)
        expect(running.reported('connected')).toMatch(/^no: ./)

        await lan.cut('server', false)
        await isFollowing(last, patience)
        await expect.poll(() => running.reported('connected'), patience).toBe('yes')
        const connectedAt = seconds.length
        await expect
          .poll(() => seconds.length, patience)
          .toBeGreaterThan(connectedAt + AFTER_SECONDS)

        expect(seconds.length - cutAt).toBeGreaterThan(CUT_MS / 1000)
        expect(sum(seconds, 'publish')).toBeGreaterThan(AFTER_SECONDS / 2)
        expect(sum(seconds, 'republish')).toBe(0)
        expect(busiest(seconds)).toBeLessThan(10 * MAX_PACKETS_A_SECOND)
        await expect.poll(() => running.sockets(), patience).toBe(1)
        expect(await running.end('SIGTERM')).toEqual([0, null])
      },
    )
  }
})
