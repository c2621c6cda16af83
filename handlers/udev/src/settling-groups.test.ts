import type { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { InventoryHarness } from './testing/inventory-harness.js'
import type { SysfsFolder } from './testing/sysfs-folder.js'

let world: InventoryHarness
let tree: SysfsFolder
let clock: ManualClock

beforeEach(() => {
  world = new InventoryHarness()
  ;({ tree, clock } = world)
})

afterEach(() => world.close())

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
    await world.send('kernel', 'add', part.devpath, part.subsystem)
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
    tree.database(`c${part.number}`, [`I:${1000 * (world.uptimeMs() - msBefore)}`, 'V:1'])
  }

  async function process({ devpath, subsystem, number }: typeof WHOLE) {
    tree.database(`c${number}`, [`I:${world.sequence}`, 'V:1'])
    await world.send('udev', 'add', devpath, subsystem)
  }

  it('is offered with all nodes, a second after its last event', async () => {
    tree.udevd('control')
    const lists = await world.discover(details)
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
    await world.udevdInThisNetwork()
    const lists = await world.discover(details)
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
    const lists = await world.discover(details)
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
    const lists = await world.discover({ udevRules, groupRecursive: true })
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
    const lists = await world.discover(details)
    await clock.advance(19_000)
    expect(lists).toEqual([[]])
    await clock.advance(1500)
    expect(lists).toEqual([[], ['1-2 1']])
  })

  it('is offered at the start if udevd processed it long before', async () => {
    tree.udevd('control')
    tree.udevd('queue')
    for (const part of PARTS) plugBefore(part, 60_000)
    expect(await world.discover(details)).toEqual([['1-2 3']])
  })

  it('is offered after ten seconds if its events do not end', async () => {
    tree.udevd('control')
    const lists = await world.discover(details)
    await add(WHOLE, 100)
    for (let at = 0; at < 9000; at += 500) {
      await world.send('kernel', 'change', WHOLE.devpath, 'usb')
      await clock.advance(500)
    }
    expect(lists).toEqual([[]])
    for (let at = 0; at < 2000; at += 500) {
      await world.send('kernel', 'change', WHOLE.devpath, 'usb')
      await clock.advance(500)
    }
    expect(lists).toEqual([[], ['1-2 1']])
  })
})
