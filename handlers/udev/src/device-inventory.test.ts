import path from 'node:path'
import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { followDiscovery } from '@akrijs/sdk/host'
import type { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { InventoryHarness, RECORD, TTY } from './testing/inventory-harness.js'
import type { ManualMonitor } from './testing/manual-monitor.js'
import type { SysfsFolder } from './testing/sysfs-folder.js'
import { UeventBurst } from './uevent-burst.js'

let world: InventoryHarness
let tree: SysfsFolder
let monitor: ManualMonitor
let clock: ManualClock

beforeEach(() => {
  world = new InventoryHarness()
  ;({ tree, monitor, clock } = world)
})

afterEach(() => world.close())

describe('the inventory of devices', () => {
  it('finds a device whose udev rules take 40 s, without events of udevd', async () => {
    tree.udevd('control')
    const lists = await world.discover({
      udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'],
    })
    world.addTty()
    tree.udevd('queue')
    await world.send('kernel', 'add', TTY, 'tty')
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
    const lists = await world.discover({
      udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'],
    })
    world.addTty()
    tree.udevd('queue')
    const burst = new UeventBurst({ clock, quietMs: 20, ceilingMs: 80 }, world.stop.signal)
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
    world.addTty()
    const lists = await world.discover({
      udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'],
    })
    await clock.advance(5000)
    expect(lists).toEqual([[]])
    tree.database('c188:0', RECORD)
    tree.udevd('queue', false)
    await clock.advance(5000)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('looks again after growing pauses, for a minute', async () => {
    tree.udevd('control')
    const lists = await world.discover({ udevRules: ['SUBSYSTEM=="net", ATTR{speed}=="1000"'] })
    const link = '/devices/virtual/net/lan1'
    tree.add(link, { class: 'net', uevent: { INTERFACE: 'lan1' } })
    await world.send('kernel', 'add', link, 'net')
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
    const lists = await world.discover({ udevRules: [rule] })
    const others = await world.discover({ udevRules: [rule, 'SUBSYSTEM=="mem"'] })
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
    world.lookCostMs = 350
    const lists = await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    world.addTty()
    await world.send('kernel', 'add', TTY, 'tty')
    await clock.advance(999)
    expect(lists).toEqual([[]])
    world.lookCostMs = 3000
    await clock.advance(1)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
    tree.delete(TTY, 'tty')
    await world.send('kernel', 'remove', TTY, 'tty')
    await clock.advance(1999)
    expect(lists).toHaveLength(2)
    await clock.advance(1)
    expect(lists).toEqual([[], ['ttyUSB0 1'], []])
  })

  it('reads ancestors again after an event of a device below', async () => {
    const hub = '/devices/pci0000:00/0000:00:05.0'
    tree.add(hub, { bus: 'pci' })
    tree.attribute(hub, 'label', 'old')
    world.addTty()
    const lists = await world.discover({ udevRules: ['SUBSYSTEM=="tty", ATTRS{label}=="new"'] })
    tree.attribute(hub, 'label', 'new')
    await world.send('kernel', 'change', TTY, 'tty')
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('removes a device at the event of the kernel, and what was below it', async () => {
    tree.udevd('control')
    tree.database('c188:0', RECORD)
    world.addTty()
    const lists = await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    expect(lists).toEqual([['ttyUSB0 1']])
    tree.delete(TTY, 'tty')
    await world.send('kernel', 'remove', path.dirname(path.dirname(TTY)), 'usb-serial')
    expect(lists).toEqual([['ttyUSB0 1'], []])
  })
})

async function remarked(): Promise<(readonly string[])[]> {
  const remarks: (readonly string[])[] = []
  const read = async () => {
    const request = {
      details: JSON.stringify({ udevRules: ['SUBSYSTEM=="tty"'] }),
      properties: new DiscoveryProperties(),
      signal: world.stop.signal,
      log: silentLogger,
    }
    world.addTty()
    for await (const list of followDiscovery(world.handler, request)) remarks.push(list.remarks)
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
    const lists = await world.discover({ udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="OTHER"'] })
    expect(world.leftOut).toEqual([])
    world.addTty()
    await world.send('kernel', 'add', TTY, 'tty')
    expect([lists, world.leftOut]).toEqual([[[]], [asksFor]])
    tree.delete(TTY, 'tty')
    await world.send('kernel', 'remove', TTY, 'tty')
    expect([lists, world.leftOut]).toEqual([[[]], []])
  })

  it('name no device if another device matches', async () => {
    world.addTty()
    const null0 = '/devices/virtual/mem/null'
    tree.add(null0, { class: 'mem', uevent: { DEVNAME: 'null' } })
    await world.discover({ udevRules: ['SUBSYSTEM=="tty", ENV{A}=="1"', 'KERNEL=="null"'] })
    expect(world.leftOut).toEqual([])
    tree.delete(null0, 'mem')
    await world.send('kernel', 'remove', null0, 'mem')
    expect(world.leftOut).toEqual(['ttyUSB0: rule 1 of 2 asks for ENV{A}=="1"'])
  })
})

describe('a link of the network', () => {
  const LINK = '/devices/virtual/net/lan1'
  const udevRules = ['SUBSYSTEM=="net"']

  async function plugLink() {
    tree.add(LINK, { class: 'net', uevent: { INTERFACE: 'lan1', IFINDEX: '2' } })
    await world.send('kernel', 'add', LINK, 'net')
  }

  it('is offered immediately in another network than that of udevd', async () => {
    tree.udevd('control')
    tree.udevd('queue')
    const lists = await world.discover({ udevRules })
    await plugLink()
    await clock.advance(200)
    expect(lists).toEqual([[], ['lan1 0']])
  })

  it('is offered in the network of udevd when udevd has processed it', async () => {
    await world.udevdInThisNetwork()
    tree.udevd('queue')
    const lists = await world.discover({ udevRules })
    await plugLink()
    await clock.advance(10_000)
    expect(lists).toEqual([[]])
    tree.database('n2', ['I:5000', 'V:1'])
    await world.send('udev', 'add', LINK, 'net')
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
    const lists = await world.discover({
      udevRules: ['SUBSYSTEM=="net", ENV{ID_NET_DRIVER}=="?*"', 'SUBSYSTEM=="net", TAG=="?*"'],
    })
    expect(lists).toEqual([[]])
    expect(await world.discover({ udevRules: ['SUBSYSTEM=="net", ENV{IFINDEX}=="2"'] })).toEqual([
      ['lan1 0'],
    ])
  })
})
