import { setTimeout } from 'node:timers/promises'
import { silentLogger, systemClock } from '@akrijs/sdk'
import { HostNames } from '@akrijs/sdk/network'
import { expect, it } from 'vitest'
import { mdnsMethod } from '../mdns/mdns-method.js'
import type { MdnsServer } from '../mdns/mdns-server.js'
import { endSilentCalls, start, timeouts } from '../testing/rounds.js'
import { BackgroundRounds } from './background-rounds.js'
import { findServersMethod } from './find-servers-method.js'

const stop = new AbortController()

const hostNames = new HostNames({ clock: systemClock })
const noAddresses = async () => new Set<string>()
const options = () => ({
  hostNames,
  log: silentLogger,
  recentlyAnswered: noAddresses,
  responsive: noAddresses,
  timeouts: timeouts(),
  signal: stop.signal,
  clock: systemClock,
})

/** The first list, while calls that get no answer end by their time limits. */
async function firstOf<List>(lists: AsyncIterable<List>): Promise<List> {
  let isOver = false
  const first = async () => {
    try {
      for await (const list of lists) return list
      return expect.fail('no list')
    } finally {
      isOver = true
    }
  }
  const list = first()
  while (!isOver) await endSilentCalls()
  return list
}

it('a server beside many silent discovery URLs is in the first list', async () => {
  const [silent, good] = [await start(), await start()]
  silent.silent = true
  const silentUrls = Array.from({ length: 160 }, (_, index) => `${silent.url}${index}`)
  const discoveryUrls = [...silentUrls, good.url]
  const list = await firstOf(findServersMethod({ ...options(), discoveryUrls, interval: '1h' }))
  expect(list.servers.map(({ discoveryUrl }) => discoveryUrl)).toEqual([good.url])
  expect(list.leftOut.length).toBeLessThan(160)
})

it('an announced server does not wait for silent discovery servers', async () => {
  const silent = await start()
  silent.silent = true
  const address = '127.0.0.1'
  const announced = (path: string, isDiscoveryServer: boolean) => ({
    name: 'PLC',
    discoveryUrl: `opc.tcp://plc.local:${silent.port}/${path}`,
    addresses: [address],
    capabilities: [],
    isDiscoveryServer,
  })
  const names = Array.from({ length: 100 }, (_, index) => `lds${index}`)
  async function* lists() {
    yield [announced('plc', false), ...names.map((name) => announced(name, true))]
  }
  const reach = {
    targetOf: async ({ discoveryUrl }: Pick<MdnsServer, 'discoveryUrl'>) => ({
      addresses: [address],
      port: silent.port,
      endpointUrl: discoveryUrl,
    }),
  }
  const { servers, leftOut } = await firstOf(
    mdnsMethod({ ...options(), announced: lists(), reach }),
  )
  expect(servers).toHaveLength(1)
  expect(leftOut.length).toBeLessThan(100)
})

it('a URL has one round at a time, and a failing URL waits for the others', async () => {
  const begun: string[] = []
  const ends: (() => void)[] = []
  const url = (name: string, isFailing: boolean) => ({
    isFailing,
    round: () => {
      begun.push(name)
      return new Promise<void>((resolve) => ends.push(resolve))
    },
  })
  const many = Array.from({ length: 64 }, (_, index) => url(`${index}`, false))
  const [failing, working, absent] = [url('failing', true), url('working', false), url('x', false)]
  await using rounds = new BackgroundRounds({ signal: stop.signal })
  rounds.start([...many, absent, failing, working])
  rounds.start([...many, failing])
  rounds.cancel(absent)
  expect(begun).toHaveLength(64)
  const over = rounds.wait()
  for (let end = ends.shift(); end !== undefined; end = ends.shift()) {
    end()
    await setTimeout()
  }
  await over
  expect(begun.slice(64)).toEqual(['working', 'failing'])
})

it('an error of a round is thrown, and the end interrupts the rounds', async () => {
  const failure = new Error('a mistake')
  let interrupted: unknown
  {
    await using rounds = new BackgroundRounds({ signal: stop.signal })
    rounds.start([
      { isFailing: false, round: () => Promise.reject(failure) },
      {
        isFailing: false,
        round: (signal) =>
          systemClock.sleep(60_000, signal).catch(() => {
            interrupted = signal.aborted
          }),
      },
    ])
    await expect(rounds.wait()).rejects.toBe(failure)
    expect(interrupted).toBeUndefined()
  }
  expect(interrupted).toBe(true)
})
