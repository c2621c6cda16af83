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

it('follows conditions on ancestors to the nearest of them', () => {
  const hub = device('1-1', 'usb', { idVendor: '046d' })
  const tty = device('ttyUSB0', 'tty', {}, hub)
  const rule = 'SUBSYSTEM=="tty", SUBSYSTEMS=="usb", ATTRS{idVendor}=="1234"'
  expect(closest([rule], [tty]).explained).toEqual([
    '/devices/ttyUSB0: rule 1 of 1 asks for ATTRS{idVendor}=="1234": ' +
      'ATTRS{idVendor} is absent for the device itself',
  ])
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
