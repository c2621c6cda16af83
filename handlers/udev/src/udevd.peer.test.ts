import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { DeviceTree, SYSTEM_ROOTS } from './device-tree.js'
import { parseRule } from './rule.js'
import { ruleMatcher } from './rule-matcher.js'

// udevd is the reference: each condition becomes a rule of udevd that sets a mark, and the test
// compares the marks.

const udevd = '/lib/systemd/systemd-udevd'
const possible =
  existsSync(udevd) && spawnSync('unshare', ['--mount', '--net', 'true']).status === 0
const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-udevd-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const DEVICES = [
  '/devices/virtual/mem/null',
  '/devices/virtual/tty/tty0',
  '/devices/pci0000:00/0000:00:01.0',
]
const CONDITIONS = [
  'KERNEL=="n*"',
  'KERNEL=="null|tty?"',
  'KERNEL!="null"',
  'KERNEL=="n*" KERNEL=="*x"',
  'KERNEL=="n*"SUBSYSTEM=="mem"',
  'KERNEL == "null" , SUBSYSTEM != "tty"',
  'KERNEL=="[!n]*"',
  'KERNEL=="[m|n]ull"',
  'KERNEL=="nu\\ll"',
  'KERNEL=="nu\\l*"',
  'KERNEL==e"nul\\x6c"',
  'KERNEL=="?*"',
  'DEVPATH=="/devices/virtual/*"',
  'SUBSYSTEM=="class"',
  'SUBSYSTEM=="mem|pci"',
  'DRIVER==""',
  'DRIVER!="none"',
  'DRIVER=="?*"',
  'ATTR{dev}=="1:3"',
  'ATTR{dev}!="1:3"',
  'ATTR{dev}=="1:3 "',
  'ATTR{dev}=="1:3", ATTR{dev}=="4:*"',
  'ATTR{nothing}=="*"',
  'ATTR{nothing}!="x"',
  'ATTR{subsystem}=="mem"',
  'ATTR{power}=="*"',
  'ATTR{vendor}=="0x*"',
  // On a PCI device, `device` is a file.
  'ATTR{device/vendor}=="0x*"',
  'ATTR{device/vendor}!="x"',
  'ATTR{subsystem/drivers_autoprobe}=="1"',
  `ATTR{${'a'.repeat(256)}}=="*"`,
  `ATTR{${'a/'.repeat(2500)}a}=="*"`,
  'ENV{NOTHING}==""',
  'ENV{NOTHING}!="x"',
  'ENV{NOTHING}=="|x"',
  'ENV{MAJOR}=="1"',
  'ENV{DEVNAME}=="/dev/*"',
  'TAG!="x"',
  'TAG==""',
  'SUBSYSTEMS=="mem"',
  'SUBSYSTEMS!="mem"',
  'KERNELS=="pci0000:00"',
  'KERNELS=="0000:00:01.0", SUBSYSTEMS==""',
  'KERNELS=="pci0000:00", SUBSYSTEMS==""',
  'ATTRS{nothing}!="x"',
  'TAGS!="x"',
]

describe.skipIf(!possible)('compared with udevd (needs root and the Debian package udev)', () => {
  it('D1 matches the same devices as udevd', async () => {
    const rules = path.join(directory, 'rules')
    writeFileSync(
      rules,
      CONDITIONS.map((condition, index) => `${condition}, ENV{AKRI_${index}}="1"\n`).join(''),
    )
    const present = DEVICES.filter((devpath) => existsSync(`/sys${devpath}/uevent`))
    expect(present.length).toBeGreaterThan(1)
    const tests = present.map(
      (devpath) => `echo "P=${devpath}"; udevadm test ${devpath} 2>/dev/null`,
    )
    const script = `
      set -e
      mount --make-rprivate /
      mount -t tmpfs tmpfs /run
      mount -t tmpfs tmpfs /dev
      mknod /dev/null c 1 3; chmod 666 /dev/null
      mkdir -p /run/udev/rules.d; cp ${rules} /run/udev/rules.d/00-akri.rules
      ${tests.join('\n')}`
    const { stdout } = await promisify(execFile)('unshare', [
      '--mount',
      '--net',
      '--pid',
      '--fork',
      'sh',
      '-c',
      script,
    ])
    const theirs = new Map<string, string[]>()
    for (const line of stdout.split('\n')) {
      const devpath = /^P=(.*)$/.exec(line)?.[1]
      if (devpath !== undefined) theirs.set(devpath, [])
      const index = /^AKRI_(\d+)=1$/.exec(line)?.[1]
      if (index !== undefined) [...theirs.values()].at(-1)?.push(CONDITIONS[Number(index)] ?? '')
    }
    const tree = new DeviceTree({ ...SYSTEM_ROOTS, runUdevRoot: directory })
    for (const devpath of present) {
      const device = tree.device(devpath)
      const ours = CONDITIONS.filter(
        (condition) =>
          device !== undefined && ruleMatcher(parseRule(condition)).depth(device) === Infinity,
      )
      expect({ devpath, matches: ours }).toEqual({
        devpath,
        matches: CONDITIONS.filter((condition) => theirs.get(devpath)?.includes(condition)),
      })
      expect(ours.length).toBeGreaterThan(5)
    }
  })
})
