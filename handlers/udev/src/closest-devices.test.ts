import { expect, it } from 'vitest'
import { ClosestDevices } from './closest-devices.js'
import type { DeviceView } from './device-view.js'
import { parseRule } from './rule.js'
import { ruleMatcher } from './rule-matcher.js'

const device = (
  kernel: string,
  subsystem: string,
  attributes: Readonly<Record<string, string>> = {},
  parent?: DeviceView,
): DeviceView => ({
  devpath: `/devices/${kernel}`,
  kernel,
  subsystem,
  driver: undefined,
  devnode: undefined,
  tags: new Set(),
  properties: new Map(),
  parent,
  attribute: (name) => attributes[name],
})

function closest(rules: readonly string[], devices: readonly DeviceView[]) {
  const found = new ClosestDevices(rules.map((rule) => ruleMatcher(parseRule(rule))))
  const matching = devices.filter((each) => found.matches(each.devpath, each))
  const explained = found
    .explain((devpath) => devices.find((each) => each.devpath === devpath))
    .map(({ devpath, reason, detail }) => `${devpath}: ${reason}: ${detail}`)
  return { found, matching, explained }
}

it('names the rule that came closest, and the condition that failed', () => {
  const rules = [
    'SUBSYSTEM=="tty", KERNEL=="ttyUSB*"',
    'SUBSYSTEM=="usb", ATTR{idVendor}=="1234", ATTR{idProduct}=="0001"',
    'SUBSYSTEM=="usb", ATTR{serial}!="7"',
  ]
  const { explained, matching } = closest(rules, [
    device('1-1', 'usb', { idVendor: '046d' }),
    device('1-2', 'usb', { idVendor: '1234', idProduct: '0002', serial: '7' }),
    device('ttyS0', 'tty'),
    device('eth0', 'net'),
  ])
  expect(matching).toEqual([])
  expect(explained).toEqual([
    '/devices/1-2: rule 2 of 3 asks for ATTR{idProduct}=="0001": ATTR{idProduct} is "0002"',
    '/devices/1-1: rule 3 of 3 asks for ATTR{serial}!="7": ATTR{serial} is absent',
  ])
})

const CONTROLLER = device('0000:00:14.0', 'pci', { vendor: '0x8086' })
const ROOT_HUB = device('usb1', 'usb', { idVendor: '1d6b', serial: '7' }, CONTROLLER)
const ADAPTER = device('1-1', 'usb', { idVendor: '046d' }, ROOT_HUB)
const TTY = device('ttyUSB0', 'tty', {}, ADAPTER)

it.each([
  ['ATTRS{idVendor}=="1234"', 'ATTRS{idVendor} is "046d" in 1-1, "1d6b" in usb1'],
  [
    'SUBSYSTEM=="tty", SUBSYSTEMS=="usb", ATTRS{idVendor}=="1234"',
    'ATTRS{idVendor} is "046d" in 1-1, "1d6b" in usb1',
  ],
  ['ATTRS{product}=="x"', 'ATTRS{product} is absent in the device and its ancestors'],
  ['DRIVERS=="uas"', 'DRIVERS is absent in the device and its ancestors'],
  [
    'SUBSYSTEMS=="scsi"',
    'SUBSYSTEMS is "tty" in ttyUSB0, "usb" in 1-1, "usb" in usb1, "pci" in 0000:00:14.0',
  ],
  [
    'KERNELS=="1-2"',
    'KERNELS is "ttyUSB0" in ttyUSB0, "1-1" in 1-1, "usb1" in usb1, "0000:00:14.0" in 0000:00:14.0',
  ],
  [
    'ATTRS{idVendor}=="046d", ATTRS{serial}=="7"',
    'ATTRS{serial} is "7" in usb1; no single ancestor has all of ATTRS{idVendor}=="046d", ' +
      'ATTRS{serial}=="7"',
  ],
  [
    'SUBSYSTEM=="tty", SUBSYSTEMS=="usb", ATTRS{vendor}=="0x8086"',
    'ATTRS{vendor} is "0x8086" in 0000:00:14.0; no single ancestor has all of ' +
      'SUBSYSTEMS=="usb", ATTRS{vendor}=="0x8086"',
  ],
])('says what the device and its ancestors have where %s fails', (conditions, detail) => {
  const { explained } = closest([`KERNEL=="ttyUSB0", ${conditions}`], [TTY])
  expect(explained).toEqual([expect.stringMatching(/^\/devices\/ttyUSB0: rule 1 of 1 asks for /)])
  expect(explained[0]?.endsWith(`: ${detail}`)).toBe(true)
})

it('limits the values of ancestors', () => {
  let last: DeviceView | undefined
  for (let n = 0; n < 200; n++) last = device(`d${n}`, 'usb', { a: '1' }, last)
  const { explained } = closest(['SUBSYSTEM=="usb", ATTRS{a}=="2"'], last ? [last] : [])
  expect(explained[0]).toMatch(/: ATTRS\{a\} is ("1" in d\d+, ){10}…$/)
})

it('keeps five devices, in any order of arrival, and forgets those that are gone', () => {
  const all = Array.from({ length: 100 }, (_, index) => device(`video${index}`, 'video4linux'))
  const rule = 'SUBSYSTEM=="video4linux", ATTR{index}=="0"'
  const first = closest([rule], all).found.devpaths
  expect(first).toHaveLength(5)
  const { found } = closest([rule], all.toReversed())
  expect(found.devpaths).toEqual(first)
  found.matches('/devices/video0', undefined)
  found.matches('/devices/video1', device('video1', 'video4linux', { index: '0' }))
  expect(found.devpaths).toEqual(first.slice(2))
})

it('says which first condition no device fulfils', () => {
  const rules = ['KERNEL=="ttyUSB0"', 'SUBSYSTEM=="usb", ATTR{idVendor}=="1234"']
  const { found } = closest(rules, [device('ttyS0', 'tty')])
  expect(found.explainNothing(312)).toEqual([
    'none of 312 devices matches KERNEL=="ttyUSB0" of rule 1 of 2',
    'none of 312 devices matches SUBSYSTEM=="usb" of rule 2 of 2',
  ])
  expect(closest([], []).found.explainNothing(312)).toEqual(['there are no udev rules'])
})

it('evaluates no condition after the first that fails', () => {
  const blocking: DeviceView = {
    ...device('1-1', 'usb'),
    get properties(): never {
      return expect.fail('the uevent file was read')
    },
  }
  const rule = 'SUBSYSTEM=="usb", ATTR{idVendor}=="1234", ENV{DEVTYPE}=="usb_device"'
  expect(closest([rule], [blocking]).explained).toHaveLength(1)
})
