import { rmSync, utimesSync } from 'node:fs'
import path from 'node:path'
import type { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createUdevHandler } from './handler.js'
import { InventoryHarness, RECORD, TTY } from './testing/inventory-harness.js'
import { ManualMonitor } from './testing/manual-monitor.js'
import type { SysfsFolder } from './testing/sysfs-folder.js'

let world: InventoryHarness
let tree: SysfsFolder
let monitor: ManualMonitor
let clock: ManualClock

beforeEach(() => {
  world = new InventoryHarness()
  ;({ tree, monitor, clock } = world)
})

afterEach(() => world.close())

const MARKED = [...RECORD, 'E:ID_PROCESSING=1']
/** The time of the machine since then, as udevd writes it. */
const initialized = (msBefore: number) => `I:${1000 * (world.uptimeMs() - msBefore)}`
/** udevd begins to work: before a record that follows, or after it. */
function beginWork(when: 'before' | 'after' = 'before') {
  tree.udevd('queue')
  const at = new Date(Date.now() + (when === 'before' ? -1000 : 1000))
  utimesSync(path.join(tree.roots.runUdevRoot, 'queue'), at, at)
}

/** A device that udevd works on. @param record written before the programs of the rules */
async function plugTty(record?: readonly string[]): Promise<string[][]> {
  tree.udevd('control')
  const lists = await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })
  world.addTty()
  beginWork()
  if (record !== undefined) tree.database('c188:0', record)
  await world.send('kernel', 'add', TTY, 'tty')
  return lists
}

describe('a device that udevd should process', () => {
  it('is offered when udevd has processed it', async () => {
    const lists = await plugTty()
    await clock.advance(30_000)
    expect([lists, world.leftOut]).toEqual([[[]], ['ttyUSB0: udev is not done with it']])
    tree.database('c188:0', RECORD)
    await world.send('udev', 'add', TTY, 'tty')
    expect([lists, world.leftOut]).toEqual([[[], ['ttyUSB0 1']], []])
  })

  it.each([
    ['a minute if udevd does not finish', undefined, true],
    ['a minute if its mark stays', MARKED, true],
    ['two seconds if udevd has nothing to do', undefined, false],
    ['two seconds if its mark stays and udevd has nothing to do', MARKED, false],
  ])('is offered after %s', async (_, record, isBusy) => {
    const lists = await plugTty(record)
    if (!isBusy) tree.udevd('queue', false)
    await clock.advance(isBusy ? 59_000 : 1500)
    expect(lists).toEqual([[]])
    await clock.advance(isBusy ? 2000 : 1000)
    expect(lists).toEqual([[], ['ttyUSB0 1']])
  })

  it('is offered immediately if udevd does not run, or if it was there before', async () => {
    const before = await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    world.addTty()
    await world.send('kernel', 'add', TTY, 'tty')
    expect(before).toEqual([[], ['ttyUSB0 1']])
    tree.udevd('control')
    const other = { monitor: new ManualMonitor(), clock, processorMs: () => 0 }
    world.handler = createUdevHandler({ ...tree.roots, ...other })
    expect(await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })).toEqual([['ttyUSB0 1']])
  })

  it('stays offered while udevd processes a change', async () => {
    tree.udevd('control')
    tree.database('c188:0', RECORD)
    world.addTty()
    const lists = await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })
    tree.udevd('queue')
    rmSync(path.join(tree.roots.runUdevRoot, 'data/c188:0'))
    await world.send('kernel', 'change', TTY, 'tty')
    await clock.advance(10_000)
    expect(lists).toEqual([['ttyUSB0 1']])
  })

  describe('while programs of its rules run (RUN)', () => {
    it('is offered when udevd removes its mark, also beside other work of udevd', async () => {
      const lists = await plugTty(MARKED)
      await clock.advance(30_000)
      expect([lists, world.leftOut]).toEqual([[[]], ['ttyUSB0: udev is not done with it']])
      tree.database('c188:0', [...RECORD, 'E:DONE=1'])
      await clock.advance(25_000)
      expect([lists, world.leftOut]).toEqual([[[], ['ttyUSB0 1']], []])
    })

    it('is not offered at the start of the handler if udevd processes it first', async () => {
      tree.udevd('control')
      beginWork()
      world.addTty()
      tree.database('c188:0', [initialized(300), 'E:ID_PROCESSING=1', 'V:1'])
      const lists = await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })
      await clock.advance(5000)
      expect(lists).toEqual([[]])
      tree.database('c188:0', [initialized(5300), 'V:1'])
      tree.udevd('queue', false)
      await clock.advance(500)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it.each([
      ['udevd processes it again', 60_000, ['E:ID_PROCESSING=1']],
      ['its record has no mark', 300, []],
    ])('is offered at the start of the handler if %s', async (_, msBefore, mark) => {
      tree.udevd('control')
      beginWork()
      world.addTty()
      tree.database('c188:0', [initialized(msBefore), ...mark, 'V:1'])
      expect(await world.discover({ udevRules: ['SUBSYSTEM=="tty"'] })).toEqual([['ttyUSB0 1']])
    })

    it.each<[string, () => unknown]>([
      ['when udevd has nothing more to do', () => tree.udevd('queue', false)],
      ['at its event for this device', () => world.send('udev', 'add', TTY, 'tty')],
      ['when udevd was idle since and works on others', () => beginWork('after')],
    ])('is offered by a udevd without marks %s', async (_, happens) => {
      const lists = await plugTty(RECORD)
      // The event for an earlier device at the same path comes late.
      const properties = new Map([
        ['SUBSYSTEM', 'tty'],
        ['SEQNUM', `${world.sequence - 1}`],
      ])
      const late = { source: 'udev', action: 'add', devpath: TTY, properties } as const
      await monitor.tell({ kind: 'events', events: [late] })
      await clock.advance(5000)
      expect([lists, world.leftOut]).toEqual([[[]], ['ttyUSB0: udev is not done with it']])
      await happens()
      await clock.advance(250)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })

    it('is offered by a udevd without marks that is busy with others after a minute', async () => {
      const lists = await plugTty(RECORD)
      // Events of this device write its record again.
      for (let at = 0; at < 59_000; at += 1000) {
        tree.database('c188:0', [...RECORD, `E:AT=${at}`])
        await world.send('kernel', 'change', TTY, 'tty')
        await clock.advance(1000)
      }
      expect(lists).toEqual([[]])
      await clock.advance(2000)
      expect(lists).toEqual([[], ['ttyUSB0 1']])
    })
  })

  it('does not get the record of an earlier device with the same number', async () => {
    tree.udevd('control')
    tree.database('c188:0', RECORD)
    world.addTty()
    const lists = await world.discover({
      udevRules: ['SUBSYSTEM=="tty", ENV{ID_SERIAL}=="FTDI77"'],
    })
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
