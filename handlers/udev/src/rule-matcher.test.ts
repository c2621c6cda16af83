import { describe, expect, it } from 'vitest'
import type { DeviceView } from './device-view.js'
import { parseRule } from './rule.js'
import { ruleMatcher } from './rule-matcher.js'

const pci = view({
  devpath: '/devices/pci0000:00/0000:00:14.0',
  subsystem: 'pci',
  driver: 'xhci_hcd',
  attributes: { vendor: '0x8086' },
})
const usb = view({
  devpath: '/devices/pci0000:00/0000:00:14.0/usb1/1-1',
  subsystem: 'usb',
  driver: 'usb',
  attributes: { idVendor: '046d', idProduct: '0825', product: 'A camera  ' },
  properties: { ID_MODEL: 'A_camera' },
  tags: ['systemd', 'seat'],
  parent: pci,
})
const video = view({
  devpath: '/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/video4linux/video0',
  subsystem: 'video4linux',
  attributes: { name: 'UVC Camera', index: '0', empty: '' },
  properties: { ID_V4L_PRODUCT: 'UVC Camera', ID_V4L_CAPABILITIES: ':capture:' },
  tags: ['uaccess', 'seat'],
  parent: usb,
})

const matches = (rule: string, device: DeviceView = video) =>
  ruleMatcher(parseRule(rule)).depth(device) === Infinity

describe('a rule', () => {
  it('without conditions matches every device', () => {
    expect(matches('')).toBe(true)
  })

  it('matches each key of a device', () => {
    for (const rule of [
      'KERNEL=="video[0-9]"',
      'DEVPATH=="*/video4linux/*"',
      'SUBSYSTEM=="video4linux"',
      'DRIVER==""',
      'ATTR{name}=="UVC*"',
      'ENV{ID_V4L_CAPABILITIES}=="*:capture:*"',
      'TAG=="seat"',
    ]) {
      expect([rule, matches(rule)]).toEqual([rule, true])
      expect([rule, matches(rule.replace('==', '!='))]).toEqual([rule, false])
    }
    expect(matches('DRIVER=="usb"')).toBe(false)
    expect(matches('DRIVER=="usb"', usb)).toBe(true)
  })

  it('D1 needs all conditions with the same key', () => {
    for (const [holds, other, wrong] of [
      ['KERNEL=="video*"', 'KERNEL=="*0"', 'KERNEL=="*1"'],
      ['SUBSYSTEM=="video4linux"', 'SUBSYSTEM!="usb"', 'SUBSYSTEM=="usb"'],
      [
        'ENV{ID_V4L_PRODUCT}=="UVC*"',
        'ENV{ID_V4L_CAPABILITIES}!="x"',
        'ENV{ID_V4L_CAPABILITIES}=="x"',
      ],
      ['ATTR{name}=="UVC*"', 'ATTR{index}=="0"', 'ATTR{index}=="1"'],
      ['TAG=="seat"', 'TAG=="uaccess"', 'TAG=="systemd"'],
    ] as const) {
      const both = [
        `${holds}, ${other}`,
        `${other}, ${holds}`,
        `${holds}, ${wrong}`,
        `${wrong}, ${holds}`,
      ]
      expect([holds, both.map((rule) => matches(rule))]).toEqual([
        holds,
        [true, true, false, false],
      ])
    }
  })

  it('D1 may have two values for one attribute, and then matches nothing', () => {
    expect(matches('ATTR{index}=="0", ATTR{index}=="1"')).toBe(false)
    expect(matches('ATTR{index}=="0|1", ATTR{index}!="1"')).toBe(true)
  })

  it('D1 may have alternatives with | in every key', () => {
    for (const rule of [
      'KERNEL=="x|video0"',
      'SUBSYSTEM=="usb|video4linux"',
      'TAG=="x|seat"',
      'ENV{ID_V4L_PRODUCT}=="a|UVC*"',
      'DRIVERS=="a|usb"',
    ]) {
      expect([rule, matches(rule)]).toEqual([rule, true])
    }
  })

  it('D1 does not match an absent attribute, neither by == nor by !=', () => {
    expect(matches('ATTR{nothing}=="*"')).toBe(false)
    expect(matches('ATTR{nothing}!="x"')).toBe(false)
    expect(matches('ATTRS{nothing}!="x"')).toBe(false)
    expect(matches('ATTR{empty}==""')).toBe(true)
  })

  it('treats an absent property, driver or subsystem as an empty text', () => {
    expect(matches('ENV{NOTHING}!="x"')).toBe(true)
    expect(matches('ENV{NOTHING}==""')).toBe(true)
    expect(matches('ENV{NOTHING}=="*"')).toBe(true)
    expect(matches('ENV{NOTHING}=="?*"')).toBe(false)
    expect(matches('DRIVER!="usb"')).toBe(true)
  })

  it('with != of a tag matches if no tag matches', () => {
    expect(matches('TAG!="seat"')).toBe(false)
    expect(matches('TAG!="other"')).toBe(true)
    expect(matches('TAG=="x"', pci)).toBe(false)
    expect(matches('TAG!="x"', pci)).toBe(true)
  })

  it('D1 needs one device, itself or an ancestor, that matches all plural keys', () => {
    expect(matches('ATTRS{idVendor}=="046d", ATTRS{idProduct}=="0825", DRIVERS=="usb"')).toBe(true)
    expect(matches('ATTRS{idVendor}=="046d", SUBSYSTEMS=="pci"')).toBe(false)
    expect(matches('SUBSYSTEMS=="pci", DRIVERS=="xhci_hcd", ATTRS{vendor}=="0x8086"')).toBe(true)
    expect(matches('KERNELS=="1-1", TAGS=="systemd"')).toBe(true)
    expect(matches('KERNELS=="video0", TAGS=="systemd"')).toBe(false)
    expect(matches('SUBSYSTEM=="video4linux", SUBSYSTEMS=="usb", ATTRS{index}=="0"')).toBe(false)
    expect(matches('SUBSYSTEMS=="usb"', pci)).toBe(false)
  })

  it('with != of a plural key matches if any device differs', () => {
    expect(matches('SUBSYSTEMS!="video4linux"')).toBe(true)
    expect(matches('SUBSYSTEMS!="pci"', pci)).toBe(false)
  })

  it('ignores trailing blanks of an attribute unless the value ends with a blank', () => {
    expect(matches('ATTR{product}=="A camera"', usb)).toBe(true)
    expect(matches('ATTR{product}=="A camera  "', usb)).toBe(true)
    expect(matches('ATTR{product}=="A camera "', usb)).toBe(false)
  })

  it('treats subsystem, class and bus as equal', () => {
    const module = view({ devpath: '/devices/x', subsystem: 'bus' })
    for (const name of ['subsystem', 'bus', 'class'])
      expect(matches(`SUBSYSTEM=="${name}"`, module)).toBe(true)
  })
})

interface Given {
  readonly devpath: string
  readonly subsystem?: string
  readonly driver?: string
  readonly attributes?: Readonly<Record<string, string>>
  readonly properties?: Readonly<Record<string, string>>
  readonly tags?: readonly string[]
  readonly parent?: DeviceView
}

function view({
  devpath,
  subsystem,
  driver,
  attributes = {},
  properties = {},
  tags = [],
  parent,
}: Given): DeviceView {
  return {
    devpath,
    kernel: devpath.split('/').at(-1) ?? '',
    subsystem,
    driver,
    devnode: undefined,
    tags: new Set(tags),
    properties: new Map(Object.entries(properties)),
    parent,
    attribute: (name) => attributes[name],
  }
}
