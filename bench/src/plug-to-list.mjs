// The time between a plug and its list: a network link comes and goes, by the kernel's real events.
// Needs root.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { createUdevHandler } from '../../handlers/udev/dist/index.js'
import { openDiscovery } from '../../sdk/dist/host.js'
import { DiscoveryProperties, silentLogger } from '../../sdk/dist/index.js'
import { percentile } from './table.mjs'

const ROUNDS = 50
/** The existing system polls every 10 s: a plug waits 5 s on average, and 10 s at worst. */
const POLLING_MS = 10_000

export async function measure() {
  if (process.getuid?.() !== 0) return []
  if (!showsOwnLinks()) {
    process.stdout.write('without the figures of a plug: /sys is that of another network\n')
    return []
  }
  const name = `akrb${process.pid % 10_000}`
  const stop = new AbortController()
  const details = JSON.stringify({ udevRules: [`SUBSYSTEM=="net", KERNEL=="${name}"`] })
  const lists = openDiscovery(createUdevHandler(), {
    details,
    properties: new DiscoveryProperties(),
    signal: stop.signal,
    log: silentLogger,
  })
  await lists.next()
  const times = []
  for (let round = 0; round < ROUNDS; round++) {
    execFileSync('ip', ['link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}x`])
    // The kernel has sent its event by now; the time of `ip` itself does not count.
    const added = performance.now()
    await lists.next()
    times.push(performance.now() - added)
    execFileSync('ip', ['link', 'del', name])
    await lists.next()
  }
  stop.abort()
  const peer = (value) => ({ name: 'polling every 10 s', value })
  return [
    {
      what: 'plug to list, median',
      value: percentile(times, 0.5),
      unit: 'ms',
      budget: 100,
      peer: peer(POLLING_MS / 2),
    },
    {
      what: 'plug to list, p99',
      value: percentile(times, 0.99),
      unit: 'ms',
      budget: 100,
      peer: peer(POLLING_MS),
    },
  ]
}

/** Whether /sys has the links of this process: it belongs to the network of its mount. */
function showsOwnLinks() {
  const name = `akro${process.pid % 10_000}`
  execFileSync('ip', ['link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}x`])
  const isShown = existsSync(`/sys/class/net/${name}`)
  execFileSync('ip', ['link', 'del', name])
  return isShown
}
