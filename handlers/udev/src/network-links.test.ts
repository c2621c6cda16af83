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
