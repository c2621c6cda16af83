import { statSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Device, DiscoveryProperties, InvalidDetailsError, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Uevent } from './device-monitor.js'
import { createUdevHandler } from './handler.js'
import { ManualMonitor } from './testing/manual-monitor.js'
import { SysfsFolder } from './testing/sysfs-folder.js'

let tree: SysfsFolder
let monitor: ManualMonitor
let stop: AbortController

beforeEach(() => {
  tree = new SysfsFolder()
  monitor = new ManualMonitor()
  stop = new AbortController()
})

afterEach(() => {
  stop.abort()
  tree.remove()
})

/** The first list of the handler for these details. */
async function find(
  details: object | string,
  properties: Readonly<Record<string, string>> = {},
): Promise<Device[]> {
  const { value } = await open(details, properties).next()
  return value ?? []
}

function open(details: object | string, properties: Readonly<Record<string, string>> = {}) {
  const handler = createUdevHandler({ ...tree.roots, monitor })
  return openDiscovery(handler, {
    details: typeof details === 'string' ? details : JSON.stringify(details),
    properties: DiscoveryProperties.fromTexts(properties),
    signal: stop.signal,
    log: silentLogger,
  })
}

const ids = (devices: readonly Device[]) => devices.map(({ id }) => id)
const PASSTHROUGH = { devicePluginResourceName: 'akri.sh/gpu', vfioPassthrough: 'true' }
const BUS = '/devices/pci0000:00/0000:00:14.0/usb1'

describe('the udev handler', () => {
  it('offers a device with its path, node and permissions', async () => {
    tree.add('/devices/virtual/mem/null', {
      class: 'mem',
      uevent: { MAJOR: '1', MINOR: '3', DEVNAME: 'null' },
    })
    expect(await find({ udevRules: ['KERNEL=="null"'], permissions: 'rw' })).toEqual([
      {
        id: '/devices/virtual/mem/null',
        properties: { UDEV_DEVPATH: '/devices/virtual/mem/null', UDEV_DEVNODE: '/dev/null' },
        mounts: [],
        deviceSpecs: [{ containerPath: '/dev/null', hostPath: '/dev/null', permissions: 'rw' }],
      },
    ])
  })

  it('D1 refuses an invalid rule with its position, and ends only that request', async () => {
    const refused = find({ udevRules: ['KERNEL=="a"', 'KERNEL=="b", OWNER="root"'] })
    await expect(refused).rejects.toThrow(InvalidDetailsError)
    await expect(refused).rejects.toThrow(/udevRules\[1\]: line 1, column 14: OWNER cannot be used/)
    await expect(find({ udevRules: ['KERNEL=="?*"'] })).resolves.toEqual([])
  })

  it.each([
    '{ udevRules: [KERNEL=="a: b"] }',
    '{ udevRules: [KERNEL=="a,b"] }',
    'udevRules:\n- KERNEL=="a: b"',
    'udevRules:\n- KERNEL=="a #b"',
  ])('says that the rule in %j needs quotes', async (details) => {
    await expect(find(details)).rejects.toThrow(/put the rule in quotes/)
  })

  it('refuses unknown permissions and fields', async () => {
    await expect(find({ udevRules: [], permissions: 'wr' })).rejects.toThrow(/permissions/)
    await expect(find({})).rejects.toThrow(/udevRules/)
    await expect(find({ udevRules: [], groupRecursiv: true })).rejects.toThrow(/groupRecursiv/)
  })

  it('D1 groups by path components: 1-1 does not include 1-10', async () => {
    for (const [port, number] of [
      ['1-1', '002'],
      ['1-10', '003'],
      ['1-1/1-1.4', '004'],
    ] as const) {
      tree.add(`${BUS}/${port}`, { bus: 'usb', uevent: { DEVNAME: `bus/usb/001/${number}` } })
    }
    const found = await find({ udevRules: ['SUBSYSTEM=="usb"'], groupRecursive: true })
    expect(found.map(({ id, properties }) => [id, properties])).toEqual([
      [
        `${BUS}/1-1`,
        {
          UDEV_DEVPATH: `${BUS}/1-1`,
          UDEV_DEVNODE_0: '/dev/bus/usb/001/002',
          UDEV_DEVNODE_1: '/dev/bus/usb/001/004',
        },
      ],
      [`${BUS}/1-10`, { UDEV_DEVPATH: `${BUS}/1-10`, UDEV_DEVNODE_0: '/dev/bus/usb/001/003' }],
    ])
    // A hyphen sorts before the slash.
    for (const name of ['soc', 'soc-audio', 'soc/camera'])
      tree.add(`/devices/platform/${name}`, { bus: 'platform' })
    expect(ids(await find({ udevRules: ['SUBSYSTEM=="platform"'], groupRecursive: true }))).toEqual(
      ['/devices/platform/soc', '/devices/platform/soc-audio'],
    )
  })

  it('D1 numbers the nodes of a group in the same order for any order of sysfs', async () => {
    const nodes = ['video1', 'video0', 'video2']
    const details = {
      udevRules: ['SUBSYSTEM=="usb"', 'SUBSYSTEM=="video4linux"'],
      groupRecursive: true,
    }
    const lists: unknown[] = []
    for (const order of [nodes, [...nodes].reverse()]) {
      tree.remove()
      tree = new SysfsFolder()
      tree.add(`${BUS}/1-1`, { bus: 'usb', uevent: { DEVNAME: 'bus/usb/001/002' } })
      for (const node of order)
        tree.add(`${BUS}/1-1/video4linux/${node}`, {
          class: 'video4linux',
          uevent: { DEVNAME: node },
        })
      lists.push(await find(details))
    }
    expect(lists[0]).toEqual(lists[1])
    expect(lists[0]).toMatchObject([
      {
        properties: {
          UDEV_DEVNODE_0: '/dev/bus/usb/001/002',
          UDEV_DEVNODE_1: '/dev/video0',
          UDEV_DEVNODE_3: '/dev/video2',
        },
      },
    ])
  })

  it('offers the nearest ancestor with a node once, or the match without a node', async () => {
    tree.add(`${BUS}/1-1`, { bus: 'usb', uevent: { DEVNAME: 'bus/usb/001/002' } })
    tree.add(`${BUS}/1-1/1-1:1.0`, { bus: 'usb' })
    tree.add(`${BUS}/1-1/1-1:1.1`, { bus: 'usb' })
    tree.add('/devices/virtual/net/lo', { class: 'net', uevent: { IFINDEX: '1' } })
    const found = await find({ udevRules: ['KERNEL=="1-1:*"', 'SUBSYSTEM=="net"'] })
    expect(found).toEqual([
      expect.objectContaining({
        id: `${BUS}/1-1`,
        properties: { UDEV_DEVPATH: `${BUS}/1-1`, UDEV_DEVNODE: '/dev/bus/usb/001/002' },
      }),
      {
        id: '/devices/virtual/net/lo',
        properties: { UDEV_DEVPATH: '/devices/virtual/net/lo' },
        mounts: [],
        deviceSpecs: [],
      },
    ])
  })

  it('names USB and PCI devices for other plugins, and adds VFIO nodes on request', async () => {
    tree.add(`${BUS}/1-1`, { bus: 'usb', uevent: { DEVNAME: 'bus/usb/001/012' } })
    tree.add('/devices/pci0000:00/0000:00:1c.0/0000:01:00.0', {
      bus: 'pci',
      links: { iommu_group: '/kernel/iommu_groups/17' },
    })
    const details = { udevRules: ['SUBSYSTEM=="usb|pci"'] }
    const devicePluginResourceName = 'akri.sh/udev-mouse'
    const [usb, pci] = await find(details, { devicePluginResourceName, vfioPassthrough: 'True' })
    expect(usb?.properties).toMatchObject({ 'USB_RESOURCE_AKRI_SH_UDEV-MOUSE': '1:12' })
    expect(pci?.properties).toMatchObject({ 'PCI_RESOURCE_AKRI_SH_UDEV-MOUSE': '0000:01:00.0' })
    expect(pci?.deviceSpecs?.map(({ hostPath, permissions }) => [hostPath, permissions])).toEqual([
      ['/dev/vfio/17', 'rwm'],
      ['/dev/vfio/vfio', 'rwm'],
    ])
    const [, without] = await find(details, { vfioPassthrough: 'true' })
    expect(without?.deviceSpecs).toEqual([])
  })

  it('ignores white space around the properties for other plugins', async () => {
    tree.add('/devices/pci0000:00/0000:01:00.0', {
      bus: 'pci',
      links: { iommu_group: '/kernel/iommu_groups/17' },
    })
    const [device] = await find(
      { udevRules: ['SUBSYSTEM=="pci"'] },
      { devicePluginResourceName: ' akri.sh/gpu\n', vfioPassthrough: 'true\n' },
    )
    expect(device?.properties).toMatchObject({ PCI_RESOURCE_AKRI_SH_GPU: '0000:01:00.0' })
    expect(device?.deviceSpecs).toHaveLength(2)
    const blank = { devicePluginResourceName: '\n', vfioPassthrough: 'true' }
    expect((await find({ udevRules: ['SUBSYSTEM=="pci"'] }, blank))[0]?.deviceSpecs).toEqual([])
  })

  it('adds VFIO nodes for the PCI device of the id, as the existing system', async () => {
    const links = (number: number) => ({ iommu_group: `/kernel/iommu_groups/${number}` })
    const bridge = '/devices/pci0000:00/0000:00:1c.0'
    tree.add(bridge, { bus: 'pci', links: links(3) })
    tree.add(`${bridge}/0000:01:00.0`, { bus: 'pci', links: links(17) })
    tree.add('/devices/platform/gpu', { bus: 'platform', links: links(5) })
    const properties = { devicePluginResourceName: 'akri.sh/gpu', vfioPassthrough: 'true' }
    const udevRules = ['SUBSYSTEM=="pci|platform"']
    const nodes = async (groupRecursive: boolean) =>
      (await find({ udevRules, groupRecursive }, properties)).map(({ id, deviceSpecs = [] }) => [
        path.basename(id),
        ...deviceSpecs.map(({ hostPath }) => hostPath),
      ])
    expect(await nodes(true)).toEqual([['0000:00:1c.0', '/dev/vfio/3', '/dev/vfio/vfio'], ['gpu']])
    expect(await nodes(false)).toEqual([
      ['0000:00:1c.0', '/dev/vfio/3', '/dev/vfio/vfio'],
      ['0000:01:00.0', '/dev/vfio/17', '/dev/vfio/vfio'],
      ['gpu'],
    ])
  })

  it('names the node of a group that VFIO has made without an IOMMU', async () => {
    tree.add('/devices/pci0000:00/0000:01:00.0', {
      bus: 'pci',
      links: { iommu_group: '/kernel/iommu_groups/0' },
    })
    tree.add('/devices/virtual/vfio/noiommu-0', { class: 'vfio' })
    const [device] = await find({ udevRules: ['SUBSYSTEM=="pci"'] }, PASSTHROUGH)
    expect(device?.deviceSpecs?.map(({ hostPath }) => hostPath)).toEqual([
      '/dev/vfio/noiommu-0',
      '/dev/vfio/vfio',
    ])
  })

  it.each([false, true])(
    'offers the functions of an IOMMU group as one device, groupRecursive %s',
    async (deep) => {
      for (const [address, group] of [
        ['01:00.0', 17],
        ['01:00.1', 17],
        ['02:00.0', 18],
      ])
        tree.add(`/devices/pci0000:00/0000:${address}`, {
          bus: 'pci',
          links: { iommu_group: `/kernel/iommu_groups/${group}` },
        })
      const details = { udevRules: ['SUBSYSTEM=="pci"'], groupRecursive: deep }
      const found = await find(details, PASSTHROUGH)
      expect(
        found.map(({ id, properties, deviceSpecs = [] }) => [
          path.basename(id),
          properties?.PCI_RESOURCE_AKRI_SH_GPU,
          deviceSpecs[0]?.hostPath,
        ]),
      ).toEqual([
        ['0000:01:00.0', '0000:01:00.0,0000:01:00.1', '/dev/vfio/17'],
        ['0000:02:00.0', '0000:02:00.0', '/dev/vfio/18'],
      ])
      // Without VFIO, each function has a driver of its own.
      expect(await find(details, { ...PASSTHROUGH, vfioPassthrough: 'false' })).toHaveLength(3)
    },
  )

  it('ignores nodes outside of /dev and devices outside of /sys/devices', async () => {
    for (const [index, name] of [
      '../etc/shadow',
      '/etc/shadow',
      'a/../../b',
      '/dev/..',
      './x',
      'a//b',
    ].entries()) {
      tree.add(`/devices/virtual/misc/bad${index}`, { class: 'misc', uevent: { DEVNAME: name } })
    }
    tree.link('/class/misc/outside', '../../../../../etc')
    const found = await find({ udevRules: ['SUBSYSTEM=="misc"'] })
    expect(found).toHaveLength(6)
    expect(found.flatMap(({ deviceSpecs = [] }) => deviceSpecs)).toEqual([])
  })

  it('reads tags, links and properties of the database of udev', async () => {
    tree.add('/devices/virtual/mem/null', {
      class: 'mem',
      uevent: { MAJOR: '1', MINOR: '3', DEVNAME: 'null' },
    })
    tree.database('c1:3', [
      'S:disk/by-id/x',
      'I:12345',
      'E:ID_MODEL=A=B',
      'G:old',
      'G:seat',
      'Q:seat',
      'V:1',
    ])
    const matches = async (rule: string) => (await find({ udevRules: [rule] })).length === 1
    expect(await matches('TAG=="seat"')).toBe(true)
    expect(await matches('TAG=="old"')).toBe(false)
    expect(
      await matches(
        'ENV{TAGS}=="*:old:*", ENV{DEVLINKS}=="/dev/disk/by-id/x", ENV{ID_MODEL}=="A=B"',
      ),
    ).toBe(true)
  })

  it('leaves out devices that disappear during the scan', async () => {
    tree.add('/devices/virtual/mem/null', { class: 'mem', uevent: { DEVNAME: 'null' } })
    tree.link('/class/mem/gone', '../../devices/virtual/mem/gone')
    expect(ids(await find({ udevRules: [''] }))).toEqual(['/devices/virtual/mem/null'])
  })

  it('counts an attribute that cannot be read as absent, for any error of its path', async () => {
    tree.add('/devices/pci0000:00/0000:00:01.0', {
      bus: 'pci',
      links: { circle: '/devices/pci0000:00/0000:00:01.0/circle' },
    })
    writeFileSync(
      path.join(tree.roots.sysfsRoot, '/devices/pci0000:00/0000:00:01.0/device'),
      '0x1043\n',
    )
    for (const name of [
      'device/vendor',
      'circle/vendor',
      'a'.repeat(256),
      `${'a/'.repeat(2500)}a`,
      'nothing',
    ]) {
      expect(ids(await find({ udevRules: [`ATTR{${name}}=="*"`] }))).toEqual([])
      expect(ids(await find({ udevRules: [`ATTR{${name}}!="x"`] }))).toEqual([])
      expect(
        ids(await find({ udevRules: [`ATTR{${name}}=="*"`, 'ATTR{device}=="0x1043"'] })),
      ).toEqual(['/devices/pci0000:00/0000:00:01.0'])
    }
  })

  it('reads no uevent file of a device that fails by its attributes', async (context) => {
    const add = (name: string, idVendor: string) => {
      tree.add(`${BUS}/${name}`, {
        bus: 'usb',
        uevent: { DEVTYPE: 'usb_device', DEVNAME: `bus/usb/001/00${name.at(-1)}` },
      })
      writeFileSync(path.join(tree.roots.sysfsRoot, BUS, name, 'idVendor'), `${idVendor}\n`)
    }
    add('1-2', '0409')
    add('1-2/1-2.3', '0627')
    // The file system records the first read after a write, and recorded none.
    const uevent = (name: string) => path.join(tree.roots.sysfsRoot, BUS, name, 'uevent')
    for (const name of ['1-2', '1-2/1-2.3']) utimesSync(uevent(name), 0, new Date())
    expect(
      ids(
        await find({
          udevRules: ['SUBSYSTEM=="usb", ENV{DEVTYPE}=="usb_device", ATTR{idVendor}=="0627"'],
        }),
      ),
    ).toEqual([`${BUS}/1-2/1-2.3`])
    context.skip(
      statSync(uevent('1-2/1-2.3')).atimeMs === 0,
      'the file system keeps no access times',
    )
    expect(statSync(uevent('1-2')).atimeMs).toBe(0)
  })

  it('D1 scans at once after events that may affect its rules, and only then', async () => {
    tree.add('/devices/virtual/mem/null', { class: 'mem', uevent: { DEVNAME: 'null' } })
    const lists = open({ udevRules: ['SUBSYSTEM=="mem"'] })
    expect((await lists.next()).value).toHaveLength(1)
    tree.add('/devices/virtual/mem/zero', { class: 'mem', uevent: { DEVNAME: 'zero' } })
    const next = lists.next()
    await monitor.tell({ kind: 'events', events: [event('/devices/virtual/net/veth0', 'net')] })
    expect(monitor.taken).toBe(2)
    const before = await Promise.race([
      next,
      new Promise((resolve) => setImmediate(() => resolve('nothing'))),
    ])
    expect(before).toBe('nothing')
    await monitor.tell({ kind: 'events', events: [event('/devices/virtual/mem/zero', 'mem')] })
    expect((await next).value).toHaveLength(2)
  })
})

function event(devpath: string, subsystem: string): Uevent {
  return {
    source: 'kernel',
    action: 'add',
    devpath,
    properties: new Map([['SUBSYSTEM', subsystem]]),
  }
}
