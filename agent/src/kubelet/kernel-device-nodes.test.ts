import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { KernelDeviceNodes } from './kernel-device-nodes.js'

describe('the device nodes of the kernel', () => {
  let root: string
  let nodes: KernelDeviceNodes

  beforeEach(async () => {
    root = await temporaryDirectory()
    for (const type of ['char', 'block'])
      await mkdir(path.join(root, 'dev', type), { recursive: true })
    nodes = new KernelDeviceNodes(root)
  })

  async function plug(type: string, number: string, directory: string, uevent: string) {
    await mkdir(path.join(root, directory), { recursive: true })
    await writeFile(path.join(root, directory, 'uevent'), uevent)
    await symlink(`../../${directory}`, path.join(root, 'dev', type, number))
  }

  async function unplug(type: string, number: string, directory: string) {
    await rm(path.join(root, 'dev', type, number))
    await rm(path.join(root, directory), { recursive: true })
  }

  const find = async (...paths: string[]) => {
    const { present, complete } = await nodes.find(new Set(paths))
    return [[...present], complete]
  }

  /** Makes a file whose readers wait until {@link answer}. */
  async function block(directory: string) {
    const uevent = path.join(root, directory, 'uevent')
    await rm(uevent)
    execFileSync('mkfifo', [uevent])
  }

  const answer = (directory: string, text: string) =>
    writeFile(path.join(root, directory, 'uevent'), text)

  it.each([
    ['char', '10:183', 'virtual/misc/hw_random', 'hwrng'],
    ['char', '189:129', 'usb2/2-1', 'bus/usb/002/002'],
    ['char', '189:16383', 'usb128/128-1', 'bus/usb/128/128'],
    ['char', '202:1', 'virtual/msr/msr1', 'cpu/1/msr'],
    ['char', '212:4', 'usb1/1-1/dvb/dvb0.frontend0', 'dvb/adapter0/frontend0'],
    ['block', '104:0', 'pci/block/cciss!c0d0', 'cciss/c0d0'],
  ])('have the names that the kernel gives: %s %s %s is /dev/%s', async (...device) => {
    const [type, number, directory, name] = device
    await plug('char', '1:5', 'devices/virtual/mem/zero', 'DEVNAME=zero\n')
    const [major, minor] = number.split(':')
    const uevent = `MAJOR=${major}\nMINOR=${minor}\nDEVNAME=${name}\nDEVMODE=0660\n`
    await plug(type, number, `devices/${directory}`, uevent)
    expect(await find(`/dev/${name}`)).toEqual([[`/dev/${name}`], expect.anything()])
    const others = ['absent', path.basename(directory), path.basename(name)]
      .filter((other) => other !== name)
      .map((other) => `/dev/${other}`)
    expect(await find(...others)).toEqual([[], true])
  })

  it('do not include a path that only ends like a device, or a name by a device', async () => {
    await plug('char', '81:0', 'devices/cam/video4linux/video0', 'DEVNAME=video0\n')
    await plug('char', '81:1', 'devices/cam/video4linux/video1', 'MAJOR=81\n')
    // What a device reports of itself comes after the kernel's text.
    const text = 'DEVNAME=video2\nPRODUCT=x\rDEVNAME=sda\u2028DEVNAME=sda\nDEVNAME=sda\n'
    await plug('char', '81:2', 'devices/cam/video4linux/video2', text)
    const paths = [
      '/dev/sda',
      ...['/dev/shm/video0', '/video0', '/dev/video1', '/dev/', '/dev', 'video0', ''],
      ...['/dev/bus/usb/001/001', '/dev/char/81:0', '/dev/v4l/by-id/usb-cam-index0'],
    ]
    expect(await find(...paths)).toEqual([[], true])
  })

  it('may include a path of a slow device, and do not hide another node', async () => {
    const clock = new ManualClock()
    nodes = new KernelDeviceNodes(root, clock)
    const over = async () => {
      await eventually(() => expect(clock.sleeping).toEqual([5000]))
      await clock.advance(5000)
    }
    const cameras = [0, 1, 2].map((number) => `devices/cam/video4linux/video${number}`)
    const all = async (change: typeof plug) => {
      for (const [number, directory] of cameras.entries())
        await change('char', `81:${number}`, directory, `DEVNAME=video${number}\n`)
    }
    await all(plug)
    const [first = '', second = ''] = cameras
    await plug('char', '1:3', 'devices/virtual/mem/null', 'DEVNAME=null\n')
    await block(first)
    // The directory of the path is read first, and no other.
    expect(await find('/dev/null')).toEqual([['/dev/null'], false])
    expect(await find('/dev/video2')).toEqual([['/dev/video2'], false])
    // No directory has this name, so all others are read, in one wait.
    const slow = find('/dev/null', '/dev/video2', '/dev/absent')
    await over()
    expect(await slow).toEqual([['/dev/null', '/dev/video2'], false])
    await eventually(async () =>
      expect(await find('/dev/null', '/dev/video1')).toEqual([['/dev/null', '/dev/video1'], false]),
    )
    // No search waits for the same read again.
    expect(await find('/dev/video0')).toEqual([[], false])
    expect(clock.sleeping).toEqual([])
    await answer(first, 'DEVNAME=video0\n')
    await eventually(async () => expect(await find('/dev/video0')).toEqual([['/dev/video0'], true]))
    expect(await find('/dev/absent')).toEqual([[], true])

    // Two blocked reads leave two threads to this process: nothing more is read until one answers.
    await all(unplug)
    expect(await find('/dev/video2')).toEqual([[], true])
    await all(plug)
    for (const directory of [first, second]) await block(directory)
    const both = find('/dev/video0', '/dev/video1')
    await over()
    expect(await both).toEqual([[], false])
    expect(await find('/dev/null', '/dev/video2')).toEqual([['/dev/null'], false])
    await answer(second, 'DEVNAME=video1\n')
    await eventually(async () =>
      expect(await find('/dev/video1', '/dev/video2')).toEqual([
        ['/dev/video1', '/dev/video2'],
        false,
      ]),
    )
    await answer(first, 'DEVNAME=video0\n')
    await eventually(async () => expect(await find('/dev/video0')).toEqual([['/dev/video0'], true]))
  })

  it('are found without a wait for other devices that do not answer', async () => {
    nodes = new KernelDeviceNodes(root, new ManualClock())
    await plug('char', '90:0', 'devices/a/event0', 'DEVNAME=other/event0\n')
    await plug('char', '91:0', 'devices/b/event0', 'DEVNAME=input/event0\n')
    // Directories with other names are read later, and USB devices not at all.
    const unread = [
      ['10:0', 'devices/c'],
      ['10:1', 'devices/d'],
      ['189:129', 'devices/usb2/2-1'],
    ] as const
    for (const [number, directory] of unread) await plug('char', number, directory, '')
    for (const directory of ['devices/a/event0', ...unread.map((each) => each[1])])
      await block(directory)
    const [event, usb] = ['/dev/input/event0', '/dev/bus/usb/002/002']
    expect(await find(event, usb)).toEqual([[event, usb], false])
    await answer('devices/a/event0', 'DEVNAME=other/event0\n')
  })

  it('may include a path while a file cannot be read', async () => {
    await plug('char', '81:0', 'devices/cam/video4linux/video0', '')
    const uevent = path.join(root, 'devices/cam/video4linux/video0/uevent')
    await rm(uevent)
    await mkdir(uevent)
    expect(await find('/dev/video0')).toEqual([[], false])
    await rm(uevent, { recursive: true })
    await writeFile(uevent, 'DEVNAME=video0\n')
    expect(await find('/dev/video0')).toEqual([['/dev/video0'], true])
  })

  it('are not complete without sysfs', async () => {
    nodes = new KernelDeviceNodes('/nonexistent')
    expect(await find('/dev/null')).toEqual([[], false])
  })

  it.skipIf(!existsSync('/sys/dev/char/1:3'))('of this machine are all found', async () => {
    nodes = new KernelDeviceNodes()
    const named = ['char', 'block'].flatMap((type) =>
      readdirSync(`/sys/dev/${type}`).flatMap((number) => {
        const text = readFileSync(`/sys/dev/${type}/${number}/uevent`, 'utf8')
        return /^DEVNAME=(.+)$/m.exec(text)?.[1] ?? []
      }),
    )
    const all = named.map((name) => `/dev/${name}`)
    expect(all).toContain('/dev/null')
    const [present, complete] = await find(...all, '/dev/shm', '/dev/fd/0', '/dev/stdin')
    expect(present).toEqual(all)
    expect(complete).toBe(true)
  })
})
