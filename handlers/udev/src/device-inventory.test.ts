import { once } from 'node:events'
import { mkdirSync, rmSync, utimesSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { type Device, DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { followDiscovery, openDiscovery, type ReportedDevices } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { MessageSource } from './device-monitor.js'
import { createUdevHandler } from './handler.js'
import { ManualMonitor } from './testing/manual-monitor.js'
import { SysfsFolder } from './testing/sysfs-folder.js'
import { UeventBurst } from './uevent-burst.js'

let tree: SysfsFolder
let monitor: ManualMonitor
let clock: ManualClock
let stop: AbortController
let handler: ReturnType<typeof createUdevHandler>
let sequence: number
/** What the last list does not have, and why. */
let leftOut: string[]
/** The processor time of each look. */
let lookCostMs: number

beforeEach(() => {
  tree = new SysfsFolder()
  monitor = new ManualMonitor()
  clock = new ManualClock()
  stop = new AbortController()
  lookCostMs = 0
  leftOut = []
  let processorMs = 0
  handler = createUdevHandler({
    ...tree.roots,
    monitor,
    clock,
    processorMs: () => {
      processorMs += lookCostMs
      return processorMs
    },
    uptimeMs,
  })
  sequence = 0
})

afterEach(async () => {
  stop.abort()
  await clock.advance(0)
  tree.remove()
})

/** The machine runs for longer than the handler. */
const uptimeMs = () => 600_000 + clock.monotonicMs()

/** The lists of a Configuration, as the paths of devices with their numbers of nodes. */
async function discover(details: object): Promise<string[][]> {
  const lists: string[][] = []
  const read = async () => {
    const request = {
      details: JSON.stringify(details),
      properties: new DiscoveryProperties(),
      signal: stop.signal,
      log: silentLogger,
      onLeftOut: ({ devices }: ReportedDevices) => {
        leftOut = devices.map(({ id, reason }) => `${path.basename(id)}: ${reason}`)
      },
    }
    for await (const list of openDiscovery(handler, request)) lists.push(list.map(shown))
  }
  void read()
  for (let turn = 0; lists.length === 0 && turn < 1000; turn++) await clock.advance(0)
  return lists
}

const shown = ({ id, deviceSpecs = [] }: Device) => `${path.basename(id)} ${deviceSpecs.length}`

async function send(source: MessageSource, action: string, devpath: string, subsystem: string) {
  if (source === 'kernel') sequence++
  const properties = new Map([
    ['SUBSYSTEM', subsystem],
    ['SEQNUM', `${sequence}`],
  ])
  await monitor.tell({ kind: 'events', events: [{ source, action, devpath, properties }] })
  await clock.advance(0)
}

/** The handler waits for events of this udevd. */
async function udevdInThisNetwork() {
  const udevd = net.createServer()
  onTestFinished(() => void udevd.close())
  mkdirSync(tree.roots.runUdevRoot, { recursive: true })
  udevd.listen(path.join(tree.roots.runUdevRoot, 'control'))
  await once(udevd, 'listening')
}

const TTY = '/devices/pci0000:00/0000:00:05.0/usb1/1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0'
const RECORD = ['I:5000', 'E:ID_SERIAL=FTDI77', 'V:1']

const addTty = () =>
  tree.add(TTY, { class: 'tty', uevent: { MAJOR: '188', MINOR: '0', DEVNAME: 'ttyUSB0' } })

describe('the inventory of devices', () => {
  it('finds a device whose udev rules take 40 s, without events of udevd', async () => {
    tree.udevd('control')
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'] })
    addTty()
    tree.udevd('queue')
    await send('kernel', 'add', TTY, 'tty')
    await clock.advance(40_000)
    expect(lists).toEqual([[]])
    tree.database('c188:0', RECORD)
    tree.udevd('queue', false)
    // Before the look at everything.
    await clock.advance(15_000)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('finds a device by its udev rules that take 5 s, also if its event is lost', async () => {
    tree.udevd('control')
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'] })
    addTty()
    tree.udevd('queue')
    const burst = new UeventBurst({ clock, quietMs: 20, ceilingMs: 80 })
    const properties = new Map([['SUBSYSTEM', 'tty']])
    for (let number = 0; number <= 1000; number++)
      burst.add({ source: 'kernel', action: 'add', devpath: TTY, properties })
    const [{ value: change }] = await Promise.all([
      burst[Symbol.asyncIterator]().next(),
      clock.advance(20),
    ])
    expect(change).toMatchObject({ kind: 'rescan' })
    await monitor.tell(change ?? { kind: 'events', events: [] })
    await clock.advance(5000)
    expect(lists).toEqual([[]])
    tree.database('c188:0', RECORD)
    tree.udevd('queue', false)
    await clock.advance(5000)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('finds a device by its udev rules that take 5 s, also if they run at the start', async () => {
    tree.udevd('control')
    tree.udevd('queue')
    addTty()
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'] })
    await clock.advance(5000)
    expect(lists).toEqual([[]])
    tree.database('c188:0', RECORD)
    tree.udevd('queue', false)
    await clock.advance(5000)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('looks again after growing pauses, for a minute', async () => {
    tree.udevd('control')
    const lists = await discover({ udevRules: ['SUBSYSTEM=="net", ATTR{speed}=="1000"'] })
    const link = '/devices/virtual/net/lan1'
    tree.add(link, { class: 'net', uevent: { INTERFACE: 'lan1' } })
    await send('kernel', 'add', link, 'net')
    const waits: number[] = []
    for (let at = 0; at < 60_000; at += 100) {
      const isUp = lists.at(-1)?.length === 1
      tree.attribute(link, 'speed', isUp ? '10' : '1000')
      await clock.advance(100)
      if ((lists.at(-1)?.length === 1) !== isUp) waits.push(at + 100)
    }
    expect(waits).toEqual([100, 300, 700, 1500, 3100, 6300, 12_700, 25_500, 51_100, 60_000])
  })

  it('finds within a minute what changed without an event', async () => {
    const link = '/devices/virtual/net/lan1'
    tree.add(link, { class: 'net', uevent: { INTERFACE: 'lan1', IFINDEX: '3' } })
    tree.attribute(link, 'operstate', 'down\n')
    const rule = 'SUBSYSTEM=="net", ATTR{operstate}=="up"'
    const lists = await discover({ udevRules: [rule] })
    const others = await discover({ udevRules: [rule, 'SUBSYSTEM=="mem"'] })
    tree.attribute(link, 'operstate', 'up\n')
    tree.add('/devices/virtual/mem/null', { class: 'mem', uevent: { DEVNAME: 'null' } })
    await clock.advance(59_000)
    expect([lists, others]).toEqual([[[]], [[]]])
    await clock.advance(1000)
    expect(lists).toEqual([[], ['lan1 0']])
    expect(others).toEqual([[], ['null 1', 'lan1 0']])
    tree.delete(link, 'net')
    await clock.advance(60_000)
    expect([lists.at(-1), others.at(-1)]).toEqual([[], ['null 1']])
  })

  it('pauses after a long look four times as long, and two seconds at most', async () => {
    lookCostMs = 350
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    addTty()
    await send('kernel', 'add', TTY, 'tty')
    await clock.advance(999)
    expect(lists).toEqual([[]])
    lookCostMs = 3000
    await clock.advance(1)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
    tree.delete(TTY, 'tty')
    await send('kernel', 'remove', TTY, 'tty')
    await clock.advance(1999)
    expect(lists).toHaveLength(2)
    await clock.advance(1)
    expect(lists).toEqual([[], ['ttyUSB0 1'], []])
  })

  it('reads ancestors again after an event of a device below', async () => {
    const hub = '/devices/pci0000:00/0000:00:05.0'
    tree.add(hub, { bus: 'pci' })
    tree.attribute(hub, 'label', 'old')
    addTty()
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty", ATTRS{label}=="new"'] })
    tree.attribute(hub, 'label', 'new')
    await send('kernel', 'change', TTY, 'tty')
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('removes a device at the event of the kernel, and what was below it', async () => {
    tree.udevd('control')
    tree.database('c188:0', RECORD)
    addTty()
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    expect(lists).toEqual([['ttyUSB0 1']])
    tree.delete(TTY, 'tty')
    await send('kernel', 'remove', path.dirname(path.dirname(TTY)), 'usb-serial')
    expect(lists).toEqual([['ttyUSB0 1'], []])
  })
})

async function remarked(): Promise<(readonly string[])[]> {
  const remarks: (readonly string[])[] = []
  const read = async () => {
    const request = {
      details: JSON.stringify({ udevRules: ['SUBSYSTEM=="tty"'] }),
      properties: new DiscoveryProperties(),
      signal: stop.signal,
      log: silentLogger,
    }
    addTty()
    for await (const list of followDiscovery(handler, request)) remarks.push(list.remarks)
  }
  void read()
  await clock.advance(0)
  for (let turn = 0; remarks.length === 0 && turn < 1000; turn++) await clock.advance(0)
  return remarks
}

it('remarks that events do not arrive, until they arrive', async () => {
  monitor.problem = 'device events unavailable, polling instead'
  const remarks = await remarked()
  expect(remarks).toEqual([[monitor.problem]])
  monitor.problem = undefined
  await clock.advance(60_000)
  expect(remarks.slice(1)).toEqual([[]])
})

it('remarks at a look at everything that events of a new udevd do not arrive', async () => {
  const remarks = await remarked()
  expect(remarks).toEqual([[]])
  monitor.checkProblem = () => {
    monitor.problem = 'events of udevd do not reach this network namespace'
  }
  await clock.advance(59_000)
  expect(remarks).toEqual([[]])
  await clock.advance(1000)
  expect(remarks.slice(1)).toEqual([[monitor.problem]])
})

describe('rules that match nothing', () => {
  const asksFor = 'ttyUSB0: rule 1 of 1 asks for ENV{ID_SERIAL}=="OTHER"'

  it('name the devices that came closest, also a device that comes later', async () => {
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="OTHER"'] })
    expect(leftOut).toEqual([])
    addTty()
    await send('kernel', 'add', TTY, 'tty')
    expect([lists, leftOut]).toEqual([[[]], [asksFor]])
    tree.delete(TTY, 'tty')
    await send('kernel', 'remove', TTY, 'tty')
    expect([lists, leftOut]).toEqual([[[]], []])
  })

  it('name no device if another device matches', async () => {
    addTty()
    const null0 = '/devices/virtual/mem/null'
    tree.add(null0, { class: 'mem', uevent: { DEVNAME: 'null' } })
    await discover({ udevRules: ['SUBSYSTEM=="tty", ENV{A}=="1"', 'KERNEL=="null"'] })
    expect(leftOut).toEqual([])
    tree.delete(null0, 'mem')
    await send('kernel', 'remove', null0, 'mem')
    expect(leftOut).toEqual(['ttyUSB0: rule 1 of 2 asks for ENV{A}=="1"'])
  })
})

describe('a device that udevd should process', () => {
  it('is offered when udevd has processed it', async () => {
    tree.udevd('control')
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    addTty()
    tree.udevd('queue')
    await send('kernel', 'add', TTY, 'tty')
    await clock.advance(30_000)
    expect(lists).toEqual([[]])
    expect(leftOut).toEqual(['ttyUSB0: udev is not done with it'])
    tree.database('c188:0', RECORD)
    await send('udev', 'add', TTY, 'tty')
    expect(lists).toEqual([[], ['ttyUSB0 1']])
    expect(leftOut).toEqual([])
  })

  it('is offered after a minute if udevd does not finish', async () => {
    tree.udevd('control')
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    addTty()
    tree.udevd('queue')
    await send('kernel', 'add', TTY, 'tty')
    await clock.advance(59_000)
    expect(lists).toEqual([[]])
    await clock.advance(2000)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('is offered after two seconds if udevd has nothing to do', async () => {
    tree.udevd('control')
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    addTty()
    await send('kernel', 'add', TTY, 'tty')
    await clock.advance(1500)
    expect(lists).toEqual([[]])
    await clock.advance(1000)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('is offered immediately if udevd does not run, or if it was there before', async () => {
    const before = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    addTty()
    await send('kernel', 'add', TTY, 'tty')
    expect(before).toEqual([[], ['ttyUSB0 1']])
    tree.udevd('control')
    const other = { monitor: new ManualMonitor(), clock, processorMs: () => 0 }
    handler = createUdevHandler({ ...tree.roots, ...other })
    expect(await discover({ udevRules: ['SUBSYSTEM=="tty"'] })).toEqual([['ttyUSB0 1']])
  })

  it('stays offered while udevd processes a change', async () => {
    tree.udevd('control')
    tree.database('c188:0', RECORD)
    addTty()
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    tree.udevd('queue')
    rmSync(path.join(tree.roots.runUdevRoot, 'data/c188:0'))
    await send('kernel', 'change', TTY, 'tty')
    await clock.advance(10_000)
    expect(lists).toEqual([['ttyUSB0 1']])
  })

  describe('while programs of its rules run (RUN)', () => {
    const MARKED = [...RECORD, 'E:ID_PROCESSING=1']
    /** The time of the machine since then, as udevd writes it. */
    const initialized = (msBefore: number) => `I:${1000 * (uptimeMs() - msBefore)}`
    /** udevd begins to work: before a record that follows, or after it. */
    function beginWork(when: 'before' | 'after' = 'before') {
      tree.udevd('queue')
      const at = new Date(Date.now() + (when === 'before' ? -1000 : 1000))
      utimesSync(path.join(tree.roots.runUdevRoot, 'queue'), at, at)
    }

    /** A device that udevd works on, with the record that it wrote before its programs. */
    async function plugTty(record: readonly string[]): Promise<string[][]> {
      tree.udevd('control')
      const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
      addTty()
      beginWork()
      tree.database('c188:0', record)
      await send('kernel', 'add', TTY, 'tty')
      return lists
    }

    it('is offered when udevd removes its mark, also beside other work of udevd', async () => {
      const lists = await plugTty(MARKED)
      await clock.advance(30_000)
      expect([lists, leftOut]).toEqual([[[]], ['ttyUSB0: udev is not done with it']])
      tree.database('c188:0', [...RECORD, 'E:DONE=1'])
      await clock.advance(25_000)
      expect([lists, leftOut]).toEqual([[[], ['ttyUSB0 1']], []])
    })

    it('is offered after a minute if the mark stays', async () => {
      const lists = await plugTty(MARKED)
      await clock.advance(59_000)
      expect(lists).toEqual([[]])
      await clock.advance(2000)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is offered after two seconds if the mark stays and udevd has nothing to do', async () => {
      const lists = await plugTty(MARKED)
      tree.udevd('queue', false)
      await clock.advance(1500)
      expect(lists).toEqual([[]])
      await clock.advance(1000)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is not offered at the start of the handler if udevd processes it first', async () => {
      tree.udevd('control')
      beginWork()
      addTty()
      tree.database('c188:0', [initialized(300), 'E:ID_PROCESSING=1', 'V:1'])
      const lists = await discover({ udevRules: ['SUBSYSTEM=="tty"'] })
      await clock.advance(5000)
      expect(lists).toEqual([[]])
      tree.database('c188:0', [initialized(5300), 'V:1'])
      tree.udevd('queue', false)
      await clock.advance(500)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is offered at the start of the handler if udevd processes it again', async () => {
      tree.udevd('control')
      beginWork()
      addTty()
      tree.database('c188:0', [initialized(60_000), 'E:ID_PROCESSING=1', 'V:1'])
      expect(await discover({ udevRules: ['SUBSYSTEM=="tty"'] })).toEqual([['ttyUSB0 1']])
    })

    it('is offered by a udevd without marks when udevd has nothing more to do', async () => {
      const lists = await plugTty(RECORD)
      await clock.advance(30_000)
      expect([lists, leftOut]).toEqual([[[]], ['ttyUSB0: udev is not done with it']])
      tree.udevd('queue', false)
      await clock.advance(250)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is offered by a udevd without marks at its event for this device', async () => {
      const lists = await plugTty(RECORD)
      await clock.advance(5000)
      // The event for an earlier device at the same path comes late.
      const properties = new Map([
        ['SUBSYSTEM', 'tty'],
        ['SEQNUM', `${sequence - 1}`],
      ])
      const late = { source: 'udev', action: 'add', devpath: TTY, properties } as const
      await monitor.tell({ kind: 'events', events: [late] })
      await clock.advance(5000)
      expect(lists).toEqual([[]])
      await send('udev', 'add', TTY, 'tty')
      await clock.advance(250)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is offered if a udevd without marks was idle since and works on others', async () => {
      const lists = await plugTty(RECORD)
      await clock.advance(5000)
      expect(lists).toEqual([[]])
      beginWork('after')
      await clock.advance(250)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is offered by a udevd without marks that is busy with others after a minute', async () => {
      const lists = await plugTty(RECORD)
      // Events of this device write its record again.
      for (let at = 0; at < 59_000; at += 1000) {
        tree.database('c188:0', [...RECORD, `E:AT=${at}`])
        await send('kernel', 'change', TTY, 'tty')
        await clock.advance(1000)
      }
      expect(lists).toEqual([[]])
      await clock.advance(2000)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is offered at the start of the handler if its record has no mark', async () => {
      tree.udevd('control')
      beginWork()
      addTty()
      tree.database('c188:0', [initialized(300), 'V:1'])
      expect(await discover({ udevRules: ['SUBSYSTEM=="tty"'] })).toEqual([['ttyUSB0 1']])
    })
  })

  it('does not get the record of an earlier device with the same number', async () => {
    tree.udevd('control')
    tree.database('c188:0', RECORD)
    addTty()
    const lists = await discover({ udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'] })
    // Another device is plugged in at once, and udevd is slow.
    tree.udevd('queue')
    const events = ['remove', 'add'].map((action) => ({
      source: 'kernel' as const,
      action,
      devpath: TTY,
      properties: new Map([['SUBSYSTEM', 'tty']]),
    }))
    await monitor.tell({ kind: 'events', events })
    await clock.advance(20_000)
    expect(lists).toEqual([['ttyUSB0 1'], []])
    tree.database('c188:0', ['I:9000', ...RECORD.slice(1)])
    tree.udevd('queue', false)
    await clock.advance(20_000)
    expect(lists).toEqual([['ttyUSB0 1'], [], ['ttyUSB0 1']])
  })
})

describe('a physical device with several nodes', () => {
  const USB = '/devices/pci0000:00/0000:00:05.0/usb1/1-2'
  const WHOLE = { devpath: USB, subsystem: 'usb', node: 'bus/usb/001/002', number: '189:1' }
  const PARTS = [
    WHOLE,
    {
      devpath: `${USB}/1-2:1.0/hidraw/hidraw0`,
      subsystem: 'hidraw',
      node: 'hidraw0',
      number: '240:0',
    },
    {
      devpath: `${USB}/1-2:1.0/input/event3`,
      subsystem: 'input',
      node: 'input/event3',
      number: '13:67',
    },
  ]
  const details = {
    udevRules: PARTS.map(({ subsystem }) => `SUBSYSTEM=="${subsystem}"`),
    groupRecursive: true,
  }

  /** A part appears, and udevd processes it after some time. */
  async function add(part: typeof WHOLE, udevdMs: number) {
    await appear(part)
    await clock.advance(udevdMs)
    await process(part)
  }

  async function appear(part: typeof WHOLE) {
    plug(part)
    await send('kernel', 'add', part.devpath, part.subsystem)
  }

  function plug({ devpath, subsystem, node, number }: typeof WHOLE) {
    const [major = '', minor = ''] = number.split(':')
    tree.add(devpath, {
      [subsystem === 'usb' ? 'bus' : 'class']: subsystem,
      uevent: { MAJOR: major, MINOR: minor, DEVNAME: node },
    })
  }

  /** A part that udevd has processed at a time of the machine. */
  function plugBefore(part: typeof WHOLE, msBefore: number) {
    plug(part)
    tree.database(`c${part.number}`, [`I:${1000 * (uptimeMs() - msBefore)}`, 'V:1'])
  }

  async function process({ devpath, subsystem, number }: typeof WHOLE) {
    tree.database(`c${number}`, [`I:${sequence}`, 'V:1'])
    await send('udev', 'add', devpath, subsystem)
  }

  it('is offered with all nodes, a second after its last event', async () => {
    tree.udevd('control')
    const lists = await discover(details)
    for (const part of PARTS) {
      await add(part, 300)
      await clock.advance(300)
    }
    expect(lists).toEqual([[]])
    await clock.advance(1000)
    expect(lists).toEqual([[], ['1-2 3']])
    // A part that comes later joins when udevd has processed it.
    tree.udevd('queue')
    const devpath = `${USB}/1-2:1.0/input/event4`
    await add({ devpath, subsystem: 'input', node: 'input/event4', number: '13:68' }, 900)
    await clock.advance(300)
    expect(lists).toEqual([[], ['1-2 3'], ['1-2 4']])
  })

  it('is offered with a part that udevd processes for seconds', async () => {
    await udevdInThisNetwork()
    const lists = await discover(details)
    tree.udevd('queue')
    for (const part of PARTS) await appear(part)
    for (const part of PARTS) {
      await process(part)
      await clock.advance(15_000)
    }
    tree.udevd('queue', false)
    await clock.advance(2000)
    expect(lists).toEqual([[], ['1-2 3']])
  })

  it.each([
    ['is busy', true],
    ['waits for the next part', false],
  ])('is offered with all nodes if the handler starts when udevd %s', async (_, isBusy) => {
    const [whole = WHOLE, ...others] = PARTS
    tree.udevd('control')
    if (isBusy) tree.udevd('queue')
    plugBefore(whole, 300)
    const lists = await discover(details)
    expect(lists).toEqual([[]])
    for (const part of others) {
      await clock.advance(700)
      await add(part, 200)
    }
    if (isBusy) tree.udevd('queue', false)
    await clock.advance(1500)
    expect(lists).toEqual([[], ['1-2 3']])
  })

  it.each([
    ['before the start of the handler', true],
    ['in another network', false],
  ])('is offered with parts that match when udevd has processed them, %s', async (_, isBefore) => {
    const [whole = WHOLE, ...others] = PARTS
    const udevRules = ['SUBSYSTEM=="usb"', 'ENV{ID_INPUT}=="1"']
    tree.udevd('control')
    tree.udevd('queue')
    if (isBefore) plugBefore(whole, 5000)
    if (isBefore) for (const part of others) plug(part)
    const lists = await discover({ udevRules, groupRecursive: true })
    if (!isBefore) await add(whole, 100)
    if (!isBefore) for (const part of others) await appear(part)
    await clock.advance(8000)
    expect(lists).toEqual([[]])
    for (const { number } of others) tree.database(`c${number}`, ['I:1', 'E:ID_INPUT=1', 'V:1'])
    tree.udevd('queue', false)
    await clock.advance(8000)
    expect(lists).toEqual([[], ['1-2 3']])
  })

  it('is offered a minute after its record if the handler starts beside a busy udevd', async () => {
    tree.udevd('control')
    tree.udevd('queue')
    plugBefore(WHOLE, 40_000)
    const lists = await discover(details)
    await clock.advance(19_000)
    expect(lists).toEqual([[]])
    await clock.advance(1500)
    expect(lists).toEqual([[], ['1-2 1']])
  })

  it('is offered at the start if udevd processed it long before', async () => {
    tree.udevd('control')
    tree.udevd('queue')
    for (const part of PARTS) plugBefore(part, 60_000)
    expect(await discover(details)).toEqual([['1-2 3']])
  })

  it('is offered after ten seconds if its events do not end', async () => {
    tree.udevd('control')
    const lists = await discover(details)
    await add(WHOLE, 100)
    for (let at = 0; at < 9000; at += 500) {
      await send('kernel', 'change', WHOLE.devpath, 'usb')
      await clock.advance(500)
    }
    expect(lists).toEqual([[]])
    for (let at = 0; at < 2000; at += 500) {
      await send('kernel', 'change', WHOLE.devpath, 'usb')
      await clock.advance(500)
    }
    expect(lists).toEqual([[], ['1-2 1']])
  })
})

describe('a link of the network', () => {
  const LINK = '/devices/virtual/net/lan1'
  const udevRules = ['SUBSYSTEM=="net"']

  async function plugLink() {
    tree.add(LINK, { class: 'net', uevent: { INTERFACE: 'lan1', IFINDEX: '2' } })
    await send('kernel', 'add', LINK, 'net')
  }

  it('is offered immediately in another network than that of udevd', async () => {
    tree.udevd('control')
    tree.udevd('queue')
    const lists = await discover({ udevRules })
    await plugLink()
    await clock.advance(200)
    expect(lists).toEqual([[], ['lan1 0']])
  })

  it('is offered in the network of udevd when udevd has processed it', async () => {
    await udevdInThisNetwork()
    tree.udevd('queue')
    const lists = await discover({ udevRules })
    await plugLink()
    await clock.advance(10_000)
    expect(lists).toEqual([[]])
    tree.database('n2', ['I:5000', 'V:1'])
    await send('udev', 'add', LINK, 'net')
    await clock.advance(0)
    expect(lists).toEqual([[], ['lan1 0']])
  })

  it('has no properties of udevd if udevd runs in another network', async () => {
    tree.udevd('control')
    tree.add('/devices/virtual/net/lan1', {
      class: 'net',
      uevent: { INTERFACE: 'lan1', IFINDEX: '2' },
    })
    tree.database('n2', ['I:5000', 'E:ID_NET_DRIVER=host_driver', 'G:systemd', 'Q:systemd', 'V:1'])
    const lists = await discover({
      udevRules: ['SUBSYSTEM=="net", ENV{ID_NET_DRIVER}=="?*"', 'SUBSYSTEM=="net", TAG=="?*"'],
    })
    expect(lists).toEqual([[]])
    expect(await discover({ udevRules: ['SUBSYSTEM=="net", ENV{IFINDEX}=="2"'] })).toEqual([
      ['lan1 0'],
    ])
  })
})
