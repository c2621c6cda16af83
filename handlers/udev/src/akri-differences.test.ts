import { describe, expect, it } from 'vitest'
import { costOf } from '../../../test/support/cost.js'
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
    ['KERNEL=="^video[0-9]+$"', /contains \^, .* it is a glob, in Akri too/],
    ['ATTR{serial}=="\\d"', /contains \\d, .* it is a glob, in Akri too/],
    ['KERNEL=="sda|sdb"', /^"sda\|sdb" has alternatives here/],
    ['ENV{ID_SERIAL}=="*"', /^ENV\{ID_SERIAL\}=="\*" also holds if the property is absent.*"\?\*"/],
    ['ENV{ID_SERIAL}==""', /also holds if the property is absent/],
    ['ENV{ID_SERIAL}!=""', /^ENV\{ID_SERIAL\}!="" needs the property/],
    ['DRIVER==""', /also holds if the driver is absent/],
    ['DRIVERS==""', /also holds if the driver is absent/],
    ['SUBSYSTEMS==""', /also holds if the subsystem is absent/],
    ['ENV{ID_V4L_*}=="camera"', /^ENV\{ID_V4L_\*\} is one property here/],
    ['KERNEL=="a" SUBSYSTEM=="b"', /those after a missing comma do not count/],
    ['KERNEL=="a"SUBSYSTEM=="b"', /those after a missing comma do not count/],
    ['ATTR{dev}=="1:3", ATTR{dev}=="1:5"', /^all 2 conditions on ATTR\{dev\} must hold/],
    ['DRIVERS=="usb-*"', /contains \*/],
    ['DEVPATH=="/devices/virtual/*"', /in Akri it selects all/],
    ['SUBSYSTEM=="tty", SUBSYSTEM=="usb"', /^all 2 conditions on SUBSYSTEM must hold/],
    ['ENV{ID_BUS}=="usb", ENV{ID_TYPE}=="disk"', /^all 2 conditions on ENV must hold/],
    ['SUBSYSTEMS=="usb", ATTRS{serial}=="7"', /one and the same of them/],
  ])('of %s are named', (rule, message) => {
    expect(differences(rule)).toEqual([expect.stringMatching(message)])
  })

  it('are found in a time that grows with the length of a value', async () => {
    const find = () => {
      for (const key of ['DRIVERS', 'KERNEL'])
        for (const character of ['(', '[', '{']) {
          const value = `${character.repeat(300_000)}x`
          const rule = parseRule(`${key}=="x"`).map((match) => ({ ...match, value }))
          expect(akriDifferences(rule)).toEqual([])
        }
    }
    expect(await costOf(find)).toBeLessThan(5000)
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
    // Globs in both.
    'KERNEL=="1-1.*"',
    'ATTR{product}=="Camera (USB) 1.?"',
    'ENV{ID_SERIAL}=="?*"',
    'ENV{ID_SERIAL}!="x"',
    // An absent attribute matches in neither of them.
    'ATTR{serial}=="*"',
    'ATTR{serial}==""',
    'ATTR{dev}=="1:3", ATTR{size}=="5"',
    // libudev: all must hold.
    'TAG=="seat", TAG=="systemd"',
    'KERNEL=="a",SUBSYSTEM=="b" , TAG=="c",',
    'DRIVER=="usb-storage|uas"',
    'SUBSYSTEM!="usb", KERNEL!="loop0"',
  ])('are none for %j', (rule) => {
    expect(differences(rule)).toEqual([])
  })
})
