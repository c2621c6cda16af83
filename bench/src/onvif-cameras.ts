// Two hundred simulated cameras on a network of their own: the time until all are found, its cost,
// and the cost of later rounds without a change. Needs root.

import { execFileSync } from 'node:child_process'
import { performance } from 'node:perf_hooks'
import { systemClock } from '@akrijs/runtime'
import { SimulatedAgent } from '../../sdk/src/testing/simulated-agent.js'
import { bundle, Cameras, HostProcess } from '../../test/onvif/host-process.js'
import { Lan, missingForLan } from '../../test/onvif/lan.js'
import { memoryOf } from './memory.mjs'
import { type Figure, percentile } from './table.mjs'

const CAMERAS = 200
const HELLOS = 20
/** node-onvif always waits this long for answers. */
const PEER_MS = 3000
/** The default. */
const ROUND_MS = 10_000
/** The shortest interval that details allow, after which each camera is due again. */
const REFRESH_SECONDS = 60
/** The most cameras that the handler asks again in a round, each with a few requests. */
const AGAIN_PER_ROUND = 16
/** The chart's flags for V8, which every image uses. */
const NODE_OPTIONS = '--max-semi-space-size=2'

export async function measure(): Promise<Figure[]> {
  if (missingForLan().length > 0) return []
  const figures = await measureDiscovery()
  for (const count of [50, 200]) figures.push(await measureRefresh(count))
  return figures
}

/** The number of requests in the busiest round with all known cameras due. */
async function measureRefresh(count: number): Promise<Figure> {
  const lan = new Lan()
  const agent = await SimulatedAgent.start()
  const open: { close(): Promise<void> }[] = []
  try {
    const [camerasProgram, handlerProgram] = [
      await bundle('cameras-program'),
      await bundle('handler-program'),
    ]
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/16'] })
    const addresses = Array.from({ length: count }, (_, n) => `10.77.1.${n + 1}`)
    await lan.plug({ host: 'cameras', addresses: addresses.map((address) => `${address}/16`) })
    const cameras = new Cameras(new HostProcess(lan.namespace('cameras'), camerasProgram))
    open.push(cameras)
    await Promise.all(addresses.map((address) => cameras.call('start', { address })))
    const args = [agent.directory, String(ROUND_MS)]
    open.push(new HostProcess(lan.namespace('handler'), handlerProgram, args, { NODE_OPTIONS }))
    await agent.registration('onvif')
    const session = await agent.discover('onvif', {
      details: JSON.stringify({ refreshSeconds: REFRESH_SECONDS }),
    })
    open.push(session)
    while ((await session.next()).length < count);
    const { requests: toFind } = await cameras.call('counts')
    const samples: { readonly at: number; readonly requests: number }[] = []
    let requests = toFind
    // One round and a half after the first round; no two rounds are added up.
    let begun: number | undefined
    while (begun === undefined || performance.now() - begun < 1.5 * ROUND_MS) {
      requests = (await cameras.call('counts')).requests
      samples.push({ at: performance.now(), requests })
      if (requests > toFind) begun ??= performance.now()
      await systemClock.sleep(100)
    }
    const busiest = samples.map(({ at, requests: before }) => {
      const after =
        samples.findLast((other) => other.at <= at + 0.75 * ROUND_MS)?.requests ?? before
      return after - before
    })
    return {
      what: `requests in the busiest round in which all of ${count} known cameras are due`,
      value: Math.max(...busiest),
      unit: '',
      budget: 4 * AGAIN_PER_ROUND,
    }
  } finally {
    for (const opened of open.reverse()) await opened.close()
    await agent.close()
    await lan.down()
  }
}

async function measureDiscovery(): Promise<Figure[]> {
  const lan = new Lan()
  const agent = await SimulatedAgent.start()
  const open: { close(): Promise<void> }[] = []
  try {
    const [camerasProgram, handlerProgram] = [
      await bundle('cameras-program'),
      await bundle('handler-program'),
    ]
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/16'] })
    const addresses = Array.from({ length: CAMERAS }, (_, n) => `10.77.1.${n + 1}`)
    // In a round the handler reads only as many datagrams of one address as a camera sends that is
    // switched on and off a few times.
    const lateAddresses = Array.from({ length: HELLOS }, (_, n) => `10.77.2.${n + 1}`)
    await lan.plug({
      host: 'cameras',
      addresses: [...addresses, ...lateAddresses].map((address) => `${address}/16`),
    })
    const cameras = new Cameras(new HostProcess(lan.namespace('cameras'), camerasProgram))
    open.push(cameras)
    await Promise.all(addresses.map((address) => cameras.call('start', { address })))
    const handler = new HostProcess(
      lan.namespace('handler'),
      handlerProgram,
      [agent.directory, String(ROUND_MS)],
      {
        NODE_OPTIONS,
      },
    )
    open.push(handler)
    await agent.registration('onvif')

    const before = performance.now()
    const session = await agent.discover('onvif')
    open.push(session)
    let found = await session.next()
    while (found.length < CAMERAS) found = await session.next()
    const foundMs = performance.now() - before
    const [sent, received] = datagrams(lan.namespace('handler'))
    const first = await cameras.call('counts')

    // A whole round lies between two pairs of Probes.
    let now = first
    while (now.probes < first.probes + 2 * 2 * CAMERAS) {
      await systemClock.sleep(100)
      now = await cameras.call('counts')
    }
    const quiet = now.requests - first.requests
    const memory = memoryOf(handler.child.pid)
    const dirty = memory.dirty.toFixed(0)

    const helloMs: number[] = []
    for (const address of lateAddresses) {
      const late = await cameras.call('start', { address })
      await cameras.call('faults', late.index, { silent: true })
      const sentAt = performance.now()
      await cameras.call('hello', late.index)
      while ((await session.next()).length <= CAMERAS);
      helloMs.push(performance.now() - sentAt)
      await cameras.call('bye', late.index)
      while ((await session.next()).length > CAMERAS);
    }
    return [
      {
        what: `${CAMERAS} cameras found`,
        value: foundMs,
        unit: 'ms',
        budget: 5000,
        peer: { name: 'how long node-onvif waits', value: PEER_MS },
      },
      { what: `datagrams sent to find ${CAMERAS} cameras`, value: sent, unit: '', budget: 40 },
      {
        what: `datagrams received from ${CAMERAS} cameras`,
        value: received,
        unit: '',
        budget: 10 * CAMERAS,
      },
      {
        what: `requests to ${CAMERAS} cameras`,
        value: first.requests,
        unit: '',
        budget: 4 * CAMERAS,
      },
      {
        what: 'requests in a round when nothing changed and nothing is due',
        value: quiet,
        unit: '',
        budget: 16,
      },
      {
        what: `ONVIF handler, memory (RSS, ${dirty} MB dirty) with ${CAMERAS} cameras`,
        value: memory.resident,
        unit: 'MB',
        budget: 120,
      },
      { what: 'Hello to list, median', value: percentile(helloMs, 0.5), unit: 'ms', budget: 500 },
      { what: 'Hello to list, p99', value: percentile(helloMs, 0.99), unit: 'ms', budget: 1000 },
    ]
  } finally {
    for (const opened of open.reverse()) await opened.close()
    await agent.close()
    await lan.down()
  }
}

/** The UDP datagrams over IPv4 that the host has sent and received so far. */
function datagrams(namespace: string): readonly [sent: number, received: number] {
  const snmp = execFileSync('ip', ['netns', 'exec', namespace, 'cat', '/proc/net/snmp'], {
    encoding: 'utf8',
  })
  const [names = [], values = []] = [...snmp.matchAll(/^Udp: (.*)$/gm)].map(
    ([, line]) => line?.split(' ') ?? [],
  )
  const value = (name: string) => Number(values[names.indexOf(name)])
  return [value('OutDatagrams'), value('InDatagrams')]
}
