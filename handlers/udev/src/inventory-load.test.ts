import { type Device, DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, expect, it } from 'vitest'
import { processorMs } from '../../../test/support/processor-ms.js'
import { createUdevHandler } from './handler.js'
import { ManualMonitor } from './testing/manual-monitor.js'
import { SysfsFolder } from './testing/sysfs-folder.js'

let tree: SysfsFolder
let stop: AbortController

afterEach(() => {
  stop.abort()
  tree.remove()
})

function start(devices: number) {
  tree = new SysfsFolder()
  stop = new AbortController()
  for (let number = 0; number < devices; number++) {
    tree.add(`/devices/virtual/sensor/sensor${number}`, {
      class: 'sensor',
      uevent: { MAJOR: '240', MINOR: `${number}`, DEVNAME: `sensor${number}` },
    })
    tree.database(`c240:${number}`, [`I:${number}`, `E:ID_SERIAL=S${number}`, 'V:1'])
  }
  const [clock, monitor] = [new ManualClock(), new ManualMonitor()]
  const handler = createUdevHandler({ ...tree.roots, monitor, clock, processorMs: () => 0 })
  const discover = (udevRules: readonly string[]) =>
    openDiscovery(handler, {
      details: JSON.stringify({ udevRules }),
      properties: new DiscoveryProperties(),
      signal: stop.signal,
      log: silentLogger,
    })
  return { clock, monitor, discover }
}

const first = async (lists: AsyncGenerator<readonly Device[]>) => (await lists.next()).value ?? []

it('a look at everything costs the same for fifty Configurations as for one', async () => {
  const { clock, discover } = start(400)
  const open = async (number: number) =>
    expect(await first(discover([`ENV{ID_SERIAL}=="S${number}"`]))).toHaveLength(1)
  const look = async () => {
    const costs: number[] = []
    for (let round = 0; round < 5; round++) {
      const before = processorMs()
      await clock.advance(60_000)
      costs.push(processorMs() - before)
    }
    return Math.min(...costs)
  }
  await open(0)
  const one = await look()
  for (let number = 1; number < 50; number++) await open(number)
  const fifty = await look()
  process.stdout.write(`a look at 400 devices: ${one.toFixed(0)} and ${fifty.toFixed(0)} ms\n`)
  expect(fifty).toBeLessThan(2 * one + 10)
  expect(one).toBeLessThan(50)
})

it('an event costs little, for fifty Configurations and many devices', async () => {
  const { clock, monitor, discover } = start(800)
  const lists = Array.from({ length: 50 }, () => discover(['ENV{ID_SERIAL}=="S1"']))
  for (const list of lists) expect(await first(list)).toHaveLength(1)
  const before = processorMs()
  await clock.advance(60_000)
  const all = processorMs() - before
  const devpath = '/devices/virtual/sensor/sensor1'
  const costs: number[] = []
  for (let round = 0; round < 5; round++) {
    tree.database('c240:1', [`I:${round}`, `E:ID_SERIAL=${round % 2 === 0 ? 'X' : 'S1'}`, 'V:1'])
    const start = processorMs()
    const properties = new Map([['SUBSYSTEM', 'sensor']])
    await monitor.tell({
      kind: 'events',
      events: [{ source: 'udev', action: 'change', devpath, properties }],
    })
    for (const list of lists) expect(await first(list)).toHaveLength(round % 2)
    costs.push(processorMs() - start)
  }
  process.stdout.write(`an event: ${costs.map((ms) => ms.toFixed(0)).join(', ')} ms\n`)
  expect(Math.min(...costs)).toBeLessThan(all)
})

it('a look at many devices does not block the process', async () => {
  const { discover } = start(2500)
  const lists = discover(['ENV{ID_SERIAL}=="S2499"'])
  let [longest, turns, last] = [0, 0, processorMs()]
  const found = first(lists)
  let isOver = false
  void found.then(() => {
    isOver = true
  })
  while (!isOver) {
    last = processorMs()
    await new Promise((resolve) => setImmediate(resolve))
    longest = Math.max(longest, processorMs() - last)
    turns++
  }
  expect(await found).toHaveLength(1)
  process.stdout.write(`2500 devices: ${turns} turns, ${longest.toFixed(0)} ms at most\n`)
  // Without turns, all is in one: more than a hundred milliseconds.
  expect(turns).toBeGreaterThan(10)
  expect(longest).toBeLessThan(100)
})
