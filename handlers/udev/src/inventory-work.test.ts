import { rmSync } from 'node:fs'
import path from 'node:path'
import { type Device, DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
  vi,
} from 'vitest'
import { createUdevHandler } from './handler.js'
import { ManualMonitor } from './testing/manual-monitor.js'
import { SysfsFolder } from './testing/sysfs-folder.js'

// The work of the handler as numbers that do not depend on the machine: reads of files, links and
// directories, comparisons of a device with a rule, and descriptions of devices for the agent.
const work = vi.hoisted(() => ({ reads: 0, evaluations: 0, descriptions: 0 }))
type Work = typeof work

vi.mock(import('./sysfs-files.js'), async (load) => {
  const files = await load()
  const counted =
    <A extends unknown[], R>(read: (...args: A) => R) =>
    (...args: A) => {
      work.reads++
      return read(...args)
    }
  return {
    listDirectory: counted(files.listDirectory),
    readStat: counted(files.readStat),
    isReadable: counted(files.isReadable),
    readLink: counted(files.readLink),
    readText: counted(files.readText),
  }
})

vi.mock(import('./rule-matcher.js'), async (load) => {
  const { ruleMatcher, ...others } = await load()
  return {
    ...others,
    ruleMatcher: (rule) => {
      const matcher = ruleMatcher(rule)
      return {
        ...matcher,
        depth: (device) => {
          work.evaluations++
          return matcher.depth(device)
        },
      }
    },
  }
})

vi.mock(import('./device-description.js'), async (load) => {
  const { describeGroup, ...others } = await load()
  return {
    ...others,
    describeGroup: (...args) => {
      work.descriptions++
      return describeGroup(...args)
    },
  }
})

const SUBSYSTEM = 'sensor'
const pathOf = (number: number) => `/devices/virtual/sensor/sensor${number}`

function plug(tree: SysfsFolder, number: number): void {
  tree.add(pathOf(number), {
    class: SUBSYSTEM,
    uevent: { MAJOR: '240', MINOR: `${number}`, DEVNAME: `sensor${number}` },
  })
  tree.database(`c240:${number}`, [`I:${number}`, `E:ID_SERIAL=S${number}`, 'V:1'])
}

function newTree(devices: number, parent?: string): SysfsFolder {
  const tree = new SysfsFolder(parent)
  for (let number = 0; number < devices; number++) plug(tree, number)
  return tree
}

/** A handler that follows a tree until it is stopped. */
function follow(tree: SysfsFolder) {
  const [clock, monitor, stop] = [new ManualClock(), new ManualMonitor(), new AbortController()]
  const handler = createUdevHandler({ ...tree.roots, monitor, clock, processorMs: () => 0 })
  const discover = (udevRules: readonly string[]) =>
    openDiscovery(handler, {
      details: JSON.stringify({ udevRules }),
      properties: new DiscoveryProperties(),
      // As in an agent, each Configuration has its signal.
      signal: AbortSignal.any([stop.signal]),
      log: silentLogger,
    })
  return { clock, monitor, stop, discover }
}

/** The work since then. */
const since = (before: Work): Work => ({
  reads: work.reads - before.reads,
  evaluations: work.evaluations - before.evaluations,
  descriptions: work.descriptions - before.descriptions,
})

const next = async (lists: AsyncGenerator<readonly Device[]>) => (await lists.next()).value ?? []

describe('many Configurations', () => {
  let stops: (() => void)[] = []
  afterEach(() => {
    for (const stop of stops) stop()
    stops = []
  })

  /** The work of a plug, and then of a look at everything, which finds a change. */
  async function workOf(configurations: number, devices: number): Promise<[Work, Work]> {
    const tree = newTree(devices)
    const { clock, monitor, stop, discover } = follow(tree)
    stops.push(() => {
      stop.abort()
      tree.remove()
    })
    const lists = Array.from({ length: configurations }, () => discover(['ENV{ID_SERIAL}=="S*"']))
    for (const list of lists) expect(await next(list)).toHaveLength(devices)
    const measure = async (length: number, action: () => Promise<void>): Promise<Work> => {
      const before = { ...work }
      await action()
      for (const list of lists) expect(await next(list)).toHaveLength(length)
      return since(before)
    }
    const ofPlug = await measure(devices + 1, () => {
      plug(tree, devices)
      const properties = new Map([['SUBSYSTEM', SUBSYSTEM]])
      const event = { source: 'udev', action: 'add', devpath: pathOf(devices), properties } as const
      return monitor.tell({ kind: 'events', events: [event] })
    })
    const ofLook = await measure(devices, () => {
      tree.database('c240:0', ['I:2', 'E:ID_SERIAL=X', 'V:1'])
      return clock.advance(60_000)
    })
    return [ofPlug, ofLook]
  }

  it('a plug and a look at everything read as much for fifty of them as for one', async () => {
    const [plugOfOne, lookOfOne] = await workOf(1, 40)
    const [plugOfFifty, lookOfFifty] = await workOf(50, 40)
    expect(plugOfOne.reads).toBeGreaterThan(0)
    expect(lookOfOne.reads).toBeGreaterThan(40)
    expect(plugOfFifty.reads).toBe(plugOfOne.reads)
    expect(lookOfFifty.reads).toBe(lookOfOne.reads)
  })

  it('compare only the changed device with their rule', async () => {
    const [plugOfOne] = await workOf(1, 40)
    const [plugOfFifty, lookOfFifty] = await workOf(50, 40)
    expect(plugOfOne.evaluations).toBe(1)
    expect(plugOfFifty.evaluations).toBe(50)
    expect(lookOfFifty.evaluations).toBe(50)
  })

  it('a plug reads as much beside many devices as beside few', async () => {
    const [{ reads, evaluations }] = await workOf(2, 40)
    const [beside400] = await workOf(2, 400)
    expect(beside400).toMatchObject({ reads, evaluations })
  })
})

it('a device that waits for udevd causes no work for the other devices of a list', async () => {
  const tree = newTree(40)
  const { clock, monitor, stop, discover } = follow(tree)
  onTestFinished(() => {
    stop.abort()
    tree.remove()
  })
  tree.udevd('control')
  const lists = discover([`SUBSYSTEM=="${SUBSYSTEM}"`])
  expect(await next(lists)).toHaveLength(40)
  const list = next(lists)
  tree.udevd('queue')
  plug(tree, 40)
  tree.database('c240:40', ['I:40', 'E:ID_PROCESSING=1', 'V:1'])
  const properties = new Map([['SUBSYSTEM', SUBSYSTEM]])
  const event = { source: 'kernel', action: 'add', devpath: pathOf(40), properties } as const
  await monitor.tell({ kind: 'events', events: [event] })
  await clock.advance(1000)
  const before = { ...work }
  await clock.advance(50_000)
  expect(since(before)).toMatchObject({ evaluations: 0, descriptions: 0 })
  tree.database('c240:40', ['I:40', 'V:1'])
  tree.udevd('queue', false)
  await clock.advance(250)
  expect(await list).toHaveLength(41)
})

it('a look at everything reads as much after devices that came and went at new paths', async () => {
  const tree = new SysfsFolder()
  const { clock, stop, discover } = follow(tree)
  onTestFinished(() => {
    stop.abort()
    tree.remove()
  })
  const busOf = (number: number) => `/devices/virtual/hub/0003:046D.${number}`
  const plugAt = (number: number) =>
    tree.add(`${busOf(number)}/${SUBSYSTEM}/sensor${number}`, { class: SUBSYSTEM })
  const unplug = (number: number) => {
    tree.delete(`${busOf(number)}/${SUBSYSTEM}/sensor${number}`, SUBSYSTEM)
    rmSync(path.join(tree.roots.sysfsRoot, busOf(number)), { recursive: true })
  }
  const look = async () => {
    const before = { ...work }
    await clock.advance(60_000)
    return since(before).reads
  }
  plugAt(0)
  // The rule reads all directories above a device.
  expect(await next(discover(['ATTRS{label}=="x"']))).toEqual([])
  const reads = await look()
  expect(reads).toBeGreaterThan(0)
  for (let number = 1; number <= 10; number++) {
    plugAt(number)
    expect(await look()).toBeGreaterThan(reads)
    unplug(number)
    await look()
  }
  expect(await look()).toBe(reads)
})

describe('a thousand devices', () => {
  const DEVICES = 1000
  /** The work of a turn, by the clock of the test: a turn takes 5 ms. */
  const WORK_OF_TURN = 50
  let tree: SysfsFolder
  let stop: AbortController | undefined

  beforeAll(() => {
    tree = newTree(DEVICES)
  })
  beforeEach(() => {
    vi.spyOn(performance, 'now').mockImplementation(() => (5 * sumOf(work)) / WORK_OF_TURN)
  })
  afterEach(() => {
    vi.restoreAllMocks()
    stop?.abort()
  })
  afterAll(() => tree.remove())

  const sumOf = ({ reads, evaluations, descriptions }: Work) => reads + evaluations + descriptions

  /** Expects that no iteration of the event loop does much work until the action is done. */
  async function expectPauses(action: Promise<unknown>): Promise<void> {
    const turns: number[] = []
    let isOver = false
    const done = action.finally(() => {
      isOver = true
    })
    while (!isOver) {
      const before = { ...work }
      await new Promise((resolve) => setImmediate(resolve))
      turns.push(sumOf(since(before)))
    }
    await done
    expect(turns.reduce((sum, turn) => sum + turn, 0)).toBeGreaterThan(DEVICES)
    expect(Math.max(...turns)).toBeLessThan(2 * WORK_OF_TURN)
  }

  it.each([
    ['none', 'ENV{ID_SERIAL}=="X*"', 0],
    ['one of them', 'ENV{ID_SERIAL}=="S999"', 1],
    ['all of them', 'ENV{ID_SERIAL}=="S*"', DEVICES],
    ['all of them by what no record has', 'SUBSYSTEM=="sensor"', DEVICES],
  ])('the first list, of %s, has pauses', async (_what, rule, count) => {
    const { stop: end, discover } = follow(tree)
    stop = end
    const list = next(discover([rule]))
    await expectPauses(list)
    expect(await list).toHaveLength(count)
  })

  it('a look at everything has pauses', async () => {
    const { clock, stop: end, discover } = follow(tree)
    stop = end
    const lists = discover(['ENV{ID_SERIAL}=="S1"'])
    expect(await next(lists)).toHaveLength(1)
    tree.database('c240:1', ['I:2', 'E:ID_SERIAL=X1', 'V:1'])
    const list = next(lists)
    await expectPauses(Promise.all([clock.advance(60_000), list]))
    expect(await list).toHaveLength(0)
  })
})
