import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { DeviceWatch } from '../device-watch.js'
import type { UdevRequest } from '../guest.js'
import { kernelImage } from './kernel-image.js'
import { BUS, UsbMachine } from './usb-machine.js'

const image = await kernelImage()
const title =
  'missing' in image
    ? `the udev handler on a USB bus (needs ${image.missing})`
    : 'the udev handler on a USB bus'

/** The common part of QEMU's keyboards, mice and tablets. */
const ANY_INPUT = 'SUBSYSTEM=="usb", ENV{DEVTYPE}=="usb_device", ATTR{idVendor}=="0627"'

/** The path of the device at a port such as `3.2`. */
function at(port: string): string {
  const names = port
    .split('.')
    .map((_, index, numbers) => `1-${numbers.slice(0, index + 1).join('.')}`)
  return `${BUS}/${names.join('/')}`
}

const matching = (pattern: RegExp): string => expect.stringMatching(pattern)

describe.skipIf('missing' in image)(title, () => {
  let machine: UsbMachine
  const plugged = new Set<string>()
  const watches: DeviceWatch[] = []

  beforeAll(async () => {
    if ('missing' in image) return
    machine = await UsbMachine.boot(image)
  })

  afterAll(() => machine?.stop())

  afterEach(async () => {
    for (const watch of watches.splice(0)) watch.stop()
    for (const port of [...plugged]) if (plugged.has(port)) await unplug(port)
    // Each test starts with an empty bus.
    await machine.guest.run(
      'while ls /sys/bus/usb/devices | grep -q "^1-[1-9]"; do sleep 0.05; done; udevadm settle',
    )
  })

  async function watch(
    details: UdevRequest,
    options?: { readonly alone?: boolean },
  ): Promise<DeviceWatch> {
    const opened = await machine.guest.watch(details, options)
    watches.push(opened)
    return opened
  }

  async function plug(
    port: string,
    kind = 'usb-kbd',
    properties: Readonly<Record<string, string | boolean>> = {},
  ) {
    await machine.plug({ ...properties, kind, port })
    plugged.add(port)
  }

  async function unplug(port: string) {
    for (const pluggedPort of plugged)
      if (pluggedPort === port || pluggedPort.startsWith(`${port}.`)) plugged.delete(pluggedPort)
    await machine.unplug(port)
  }

  /**
   * A hub reads its ports in order: when a later port appears, the earlier ports are up to date.
   */
  async function untilKnown(ids: readonly string[], lists: DeviceWatch) {
    await plug('15', 'usb-mouse')
    await lists.untilIds([...ids, at('15')])
    await unplug('15')
    await lists.untilIds(ids)
  }

  it('finds a keyboard by properties of udevd, until it is unplugged', async () => {
    const lists = await watch({
      udevRules: [
        'SUBSYSTEM=="input", KERNEL=="event*", ' +
          'ENV{ID_INPUT_KEYBOARD}=="1", ENV{ID_SERIAL}=="QEMU_*_KBD-42"',
      ],
    })
    await plug('3', 'usb-kbd', { serial: 'KBD-42' })
    await plug('4', 'usb-kbd', { serial: 'KBD-43' })
    const { devices } = await lists.until('a keyboard', ({ devices }) => devices.length > 0)
    const node = matching(/^\/dev\/input\/event\d+$/)
    expect(devices).toEqual([
      {
        id: matching(new RegExp(`^${at('3')}/1-3:1\\.0/\\S+/input/input\\d+/event\\d+$`)),
        properties: { UDEV_DEVPATH: devices[0]?.id, UDEV_DEVNODE: node },
        mounts: [],
        deviceSpecs: [{ containerPath: node, hostPath: node, permissions: 'rwm' }],
      },
    ])
    await machine.guest.run(`test -c ${devices[0]?.properties?.UDEV_DEVNODE}`)
    await unplug('3')
    await lists.untilIds([])
    expect(lists.lists.every((list) => list.devices.length <= 1)).toBe(true)
  })

  it('finds devices behind a hub, and removes all of them with the hub', async () => {
    const lists = await watch({ udevRules: [ANY_INPUT] })
    await plug('2', 'usb-hub')
    await plug('2.1', 'usb-kbd')
    await plug('2.8', 'usb-tablet')
    await plug('2.3', 'usb-hub')
    await plug('2.3.1', 'usb-mouse')
    const { devices } = await lists.untilIds([at('2.1'), at('2.8'), at('2.3.1')])
    for (const { id, properties } of devices) {
      const number = (await machine.guest.run(`cat /sys${id}/devnum`)).trim().padStart(3, '0')
      expect(properties).toEqual({ UDEV_DEVPATH: id, UDEV_DEVNODE: `/dev/bus/usb/001/${number}` })
    }
    await unplug('2')
    await lists.untilIds([])
  })

  it('D1 groups each physical device, with its nodes always in the same order', async () => {
    const udevRules = [
      'SUBSYSTEM=="input", KERNEL=="event*", ATTRS{idVendor}=="0627"',
      'SUBSYSTEM=="hidraw", ATTRS{idVendor}=="0627"',
      ANY_INPUT,
    ]
    const lists = await watch({ udevRules, groupRecursive: true })
    // Port 1 is not above port 10, and the rule does not match the hub.
    for (const port of ['10', '1']) await plug(port)
    await plug('2', 'usb-hub')
    for (const port of ['2.2', '2.1']) await plug(port)
    const ids = [at('1'), at('10'), at('2.1'), at('2.2')]
    const complete = (devices: readonly { deviceSpecs?: readonly unknown[] }[]) =>
      devices.length === ids.length && devices.every(({ deviceSpecs }) => deviceSpecs?.length === 3)
    for (let round = 1; round <= 2; round++) {
      const { devices } = await lists.until('four keyboards, complete', ({ devices }) =>
        complete(devices),
      )
      expect(devices.map(({ id }) => id)).toEqual(ids)
      for (const { id, properties, deviceSpecs } of devices) {
        expect(properties).toEqual({
          UDEV_DEVPATH: id,
          UDEV_DEVNODE_0: matching(/^\/dev\/bus\/usb\/001\/\d{3}$/),
          UDEV_DEVNODE_1: matching(/^\/dev\/hidraw\d+$/),
          UDEV_DEVNODE_2: matching(/^\/dev\/input\/event\d+$/),
        })
        const { UDEV_DEVPATH: _, ...nodes } = properties ?? {}
        expect(deviceSpecs?.map(({ hostPath }) => hostPath)).toEqual(Object.values(nodes))
      }
      const again = await watch({ udevRules: [...udevRules].reverse(), groupRecursive: true })
      expect(again.last?.devices).toEqual(devices)
      if (round === 2) break
      await unplug('1')
      await lists.untilIds(ids.slice(1))
      await plug('1')
    }
  })

  it.each([20, 300])(
    'has a device that is pulled %i ms after the plug only if it is plugged again',
    async (pause) => {
      const lists = await watch({ udevRules: [ANY_INPUT] })
      await plug('3')
      await sleep(pause)
      await unplug('3')
      await untilKnown([], lists)
      await plug('3')
      await sleep(pause)
      await unplug('3')
      await plug('3')
      await untilKnown([at('3')], lists)
      const { devices } = await lists.untilIds([at('3')])
      const number = (await machine.guest.run(`cat /sys${at('3')}/devnum`)).trim().padStart(3, '0')
      expect(devices).toMatchObject([
        { properties: { UDEV_DEVNODE: `/dev/bus/usb/001/${number}` } },
      ])
      await unplug('3')
      await lists.untilIds([])
    },
  )

  it('reports a device that is plugged again at once as another device', async () => {
    const lists = await watch({ udevRules: [ANY_INPUT] })
    await plug('3')
    const first = (await lists.untilIds([at('3')])).devices[0]?.properties?.UDEV_DEVNODE
    await unplug('3')
    await plug('3')
    const isOther = (node: string | undefined) => node !== undefined && node !== first
    await lists.until('another node', ({ devices }) =>
      isOther(devices[0]?.properties?.UDEV_DEVNODE),
    )
    await untilKnown([at('3')], lists)
  })

  /** Adds a rule of udev, until the end of the test. */
  async function addUdevRule(rule: string) {
    const file = '/run/udev/rules.d/90-akri.rules'
    await machine.guest.run(
      `mkdir -p /run/udev/rules.d; cat >${file}; udevadm control --reload`,
      `${rule}\n`,
    )
    onTestFinished(async () => {
      await machine.guest.run(`rm ${file}; udevadm control --reload`)
    })
  }

  it.each([
    ['in the network of the machine', false],
    ['in the network of a Pod', true],
  ])(
    'offers no node before udevd has set its permissions, and no part of a device, %s',
    async (_where, alone) => {
      await addUdevRule(
        'ACTION=="remove", GOTO="end"\n' +
          'SUBSYSTEM=="hidraw|input", PROGRAM="/bin/sleep 3", MODE="0642", ENV{AKRI}="slow"\n' +
          'LABEL="end"',
      )
      const single = await watch({ udevRules: ['SUBSYSTEM=="hidraw"'] }, { alone })
      const slow = await watch({ udevRules: ['KERNEL=="event*", ENV{AKRI}=="slow"'] }, { alone })
      const udevRules = [
        'KERNEL=="event*", ATTRS{idVendor}=="0627"',
        'SUBSYSTEM=="hidraw", ATTRS{idVendor}=="0627"',
        ANY_INPUT,
      ]
      const grouped = await watch({ udevRules, groupRecursive: true }, { alone })
      await plug('3')
      const { devices } = await single.until('a node', ({ devices }) => devices.length > 0)
      const node = devices[0]?.properties?.UDEV_DEVNODE
      expect((await machine.guest.run(`stat -c %a ${node}`)).trim()).toBe('642')
      await slow.until('an event device', ({ devices }) => devices.length > 0)
      await grouped.until('a keyboard', ({ devices }) => devices.length > 0)
      expect(grouped.lists.map(({ devices }) => devices[0]?.deviceSpecs?.length)).toEqual([
        undefined,
        3,
      ])
    },
  )

  it('offers a camera with a metadata node once, by the rules of the docs', async () => {
    // The kernel's virtual camera, with a capture and a metadata node, as webcams have.
    await machine.guest.run('modprobe vivid n_devs=1 node_types=0x20001; udevadm settle')
    onTestFinished(async () => {
      await machine.guest.run('modprobe -r vivid')
    })
    const nodes = async (rule: string) =>
      (await watch({ udevRules: [rule] })).last?.devices.map(
        ({ properties }) => properties?.UDEV_DEVNODE,
      )
    expect(await nodes('KERNEL=="video[0-9]*"')).toHaveLength(2)
    const camera = ['/dev/video0']
    expect(
      await nodes('SUBSYSTEM=="video4linux", ENV{ID_V4L_CAPABILITIES}=="*:capture:*"'),
    ).toEqual(camera)
    expect(await nodes('SUBSYSTEM=="video4linux", ATTR{index}=="0"')).toEqual(camera)
  })

  it('finds fifty devices that are plugged in together, in at most fifty lists', async () => {
    const hubs = ['1', '2', '3', '4', '5', '6', '7']
    const kinds = ['usb-kbd', 'usb-mouse', 'usb-tablet'] as const
    const ports = hubs
      .flatMap((hub) => Array.from({ length: 8 }, (_, index) => `${hub}.${index + 1}`))
      .slice(0, 50)
    const lists = await watch({ udevRules: [ANY_INPUT] })
    await Promise.all(hubs.map((hub) => plug(hub, 'usb-hub')))
    await Promise.all(ports.map((port, index) => plug(port, kinds[index % kinds.length])))
    await lists.untilIds(ports.map(at), 240_000)
    const growing = lists.lists.map(({ devices }) => devices.map(({ id }) => id))
    for (const [index, ids] of growing.entries())
      expect(ids).toEqual(expect.arrayContaining(growing[index - 1] ?? []))
    await machine.guest.run('udevadm settle')
    const known = (
      await machine.guest.run('grep -l 0627 /sys/bus/usb/devices/*/idVendor | wc -l')
    ).trim()
    expect(known).toBe('50')
    expect(lists.ids.length).toBe(50)

    const before = lists.lists.length
    expect(before).toBeLessThanOrEqual(51)
    await Promise.all(hubs.map((hub) => unplug(hub)))
    await lists.untilIds([])
    expect(lists.lists.length - before).toBeLessThanOrEqual(25)
  })
})
