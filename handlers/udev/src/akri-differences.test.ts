import { describe, expect, it } from 'vitest'
import { akriDifferences } from './akri-differences.js'
import { parseRule } from './rule.js'

const differences = (rule: string) => akriDifferences(parseRule(rule))

describe('the differences of a rule from Akri', () => {
  it.each([
    ['SUBSYSTEM=="tty", SUBSYSTEMS!="usb"', /^SUBSYSTEMS!= holds if the device or any ancestor/],
    ['KERNELS!="1-1"', /^KERNELS!=/],
    ['DRIVERS!="hub"', /^DRIVERS!=/],
    ['TAGS!="seat"', /^TAGS!=/],
    ['ATTR{removable}!="1"', /^ATTR\{removable\}!= needs the attribute/],
    ['KERNEL!="sd.*"', /"sd\.\*" contains \.\*/],
    ['SUBSYSTEMS=="usb.+"', /contains \.\+/],
    ['DRIVER=="(uvcvideo|cdc_acm)"', /contains \(uvcvideo\|cdc_acm\)/],
    ['ATTRS{idVendor}=="\\d{4}"', /contains \\d/],
    ['KERNEL=="^video[0-9]+$"', /contains \[0-9\]\+|contains \^/],
    ['DRIVERS=="usb-*"', /contains \*/],
    ['DEVPATH=="/devices/virtual/*"', /in Akri it selects all/],
    ['SUBSYSTEM=="tty", SUBSYSTEM=="usb"', /^all 2 conditions on SUBSYSTEM must hold/],
    ['ENV{ID_BUS}=="usb", ENV{ID_TYPE}=="disk"', /^all 2 conditions on ENV must hold/],
    ['SUBSYSTEMS=="usb", ATTRS{serial}=="7"', /one and the same of them/],
  ])('of %s are named', (rule, message) => {
    expect(differences(rule)).toEqual([expect.stringMatching(message)])
  })

  it('of ATTRS!= are both of plural keys and of absent attributes', () => {
    expect(differences('ATTRS{removable}!="1"')).toEqual([
      expect.stringMatching(/any ancestor differs/),
      expect.stringMatching(/needs the attribute/),
    ])
  })

  it.each([
    '',
    'KERNEL=="video[0-9]*"',
    'SUBSYSTEM=="video4linux", ENV{ID_V4L_CAPABILITIES}=="*:capture:*"',
    'SUBSYSTEM=="usb", ATTR{idVendor}=="0627"',
    'SUBSYSTEM=="tty", ATTRS{idVendor}=="0403"',
    'KERNELS=="0000:00:14.0"',
    // In Akri it matches nothing.
    'KERNEL=="sda|sdb"',
    'DRIVER=="usb-storage|uas"',
    'SUBSYSTEM!="usb", KERNEL!="loop0"',
  ])('are none for %j', (rule) => {
    expect(differences(rule)).toEqual([])
  })
})
