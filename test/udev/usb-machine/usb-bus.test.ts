import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest'
import { describeUnless } from '../../support/unless.js'
import type { DeviceWatch } from '../device-watch.js'
import type { UdevRequest } from '../guest.js'
import { kernelImage } from './kernel-image.js'
import { BUS, UsbMachine } from './usb-machine.js'

const image = await kernelImage()
const lacks = 'missing' in image ? [image.missing] : []

/** The common part of QEMU's keyboards, mice and tablets. */
const ANY_INPUT = 'SUBSYSTEM=="usb", ENV{DEVTYPE}=="usb_device", ATTR{idVendor}=="0627"'

/** The path of the device at a port. */
const at = (port: string) => `${BUS}/1-${port}`
const matching = (pattern: RegExp): string => expect.stringMatching(pattern)

describeUnless(lacks, 'the udev handler on a USB bus', () => {
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
    for (const port of [...plugged]) await unplug(port)
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
    plugged.delete(port)
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
})
