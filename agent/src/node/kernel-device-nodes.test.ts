import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { KernelDeviceNodes } from './kernel-device-nodes.js'

describe('the device nodes of the kernel', () => {
  let root: string
  let nodes: KernelDeviceNodes

  beforeEach(async () => {
    root = await mkdtemp(path.join(os.tmpdir(), 'akri-sysfs-'))
    for (const type of ['char', 'block'])
      await mkdir(path.join(root, 'dev', type), { recursive: true })
    nodes = new KernelDeviceNodes(root)
  })

  afterEach(() => rm(root, { recursive: true, force: true }))

  async function plug(type: string, number: string, directory: string, uevent: string) {
    await mkdir(path.join(root, directory), { recursive: true })
    await writeFile(path.join(root, directory, 'uevent'), uevent)
    await symlink(`../../${directory}`, path.join(root, 'dev', type, number))
  }

  async function unplug(type: string, number: string, directory: string) {
    await rm(path.join(root, 'dev', type, number))
    await rm(path.join(root, directory), { recursive: true })
  }

  const find = async (...paths: string[]) => Object.fromEntries(await nodes.find(new Set(paths)))

  it('have the names that the kernel gives', async () => {
    await plug(
      'char',
      '13:64',
      'devices/virtual/input/input0/event0',
      'MAJOR=13\nDEVNAME=input/event0\n',
    )
    await plug('block', '104:0', 'devices/pci/block/cciss!c0d0', 'DEVNAME=cciss/c0d0\n')
    await plug('char', '189:129', 'devices/usb2/2-1', 'DEVNAME=bus/usb/002/002\n')
    expect(
      await find('/dev/input/event0', '/dev/cciss/c0d0', '/dev/bus/usb/002/002', '/dev/event0'),
    ).toEqual({
      '/dev/input/event0': { type: 'char', major: 13, minor: 64 },
      '/dev/cciss/c0d0': { type: 'block', major: 104, minor: 0 },
      '/dev/bus/usb/002/002': { type: 'char', major: 189, minor: 129 },
    })
  })

  it('do not include a path that only ends like a device', async () => {
    await plug('char', '81:0', 'devices/cam/video4linux/video0', 'DEVNAME=video0\n')
    await plug('char', '81:1', 'devices/cam/video4linux/video1', 'MAJOR=81\n')
    expect(
      await find(
        '/dev/shm/video0',
        '/video0',
        '/dev/video1',
        '/dev/',
        '/dev',
        'video0',
        '/dev/bus/usb/001/001',
      ),
    ).toEqual({})
  })

  it('follow the devices of the machine', async () => {
    const at = 'devices/cam/video4linux/video0'
    expect(await find('/dev/video0')).toEqual({})
    await plug('char', '81:0', at, 'DEVNAME=video0\n')
    expect(Object.keys(await find('/dev/video0'))).toEqual(['/dev/video0'])
    await unplug('char', '81:0', at)
    expect(await find('/dev/video0')).toEqual({})
    await plug('char', '81:0', at, 'DEVNAME=other/video0\n')
    expect(await find('/dev/video0')).toEqual({})
  })

  it('of a device that does not answer are not found, and keep no other device from being found', async () => {
    const clock = new ManualClock()
    nodes = new KernelDeviceNodes(root, clock)
    const stuck = [0, 1, 2].map((number) => `devices/cam/video4linux/video${number}`)
    for (const [number, directory] of stuck.entries()) {
      await plug('char', `81:${number}`, directory, '')
      await rm(path.join(root, directory, 'uevent'))
      execFileSync('mkfifo', [path.join(root, directory, 'uevent')])
    }
    await plug('char', '1:3', 'devices/virtual/mem/null', 'DEVNAME=null\n')
    expect(Object.keys(await find('/dev/null'))).toEqual(['/dev/null'])
    const all = find('/dev/null', '/dev/video0', '/dev/video1', '/dev/video2')
    const next = find('/dev/null')
    for (let reads = 0; reads < 2; reads++) {
      await eventually(() => expect(clock.sleeping).toEqual([5000]))
      await clock.advance(5000)
    }
    expect(Object.keys(await all)).toEqual(['/dev/null'])
    expect(Object.keys(await next)).toEqual(['/dev/null'])
    for (const [number, directory] of stuck.slice(0, 2).entries())
      await writeFile(path.join(root, directory, 'uevent'), `DEVNAME=video${number}\n`)
    // The late answers end their reads, and the next search reads again.
    const uevent = path.join(root, stuck[2] ?? '', 'uevent')
    await rm(uevent)
    await writeFile(uevent, 'DEVNAME=video2\n')
    await eventually(async () =>
      expect(Object.keys(await find('/dev/video2'))).toEqual(['/dev/video2']),
    )
  })

  it('are none without sysfs', async () => {
    nodes = new KernelDeviceNodes('/nonexistent')
    expect(await find('/dev/null')).toEqual({})
  })

  it.skipIf(!existsSync('/sys/dev/char/1:3'))('of this machine are found', async () => {
    nodes = new KernelDeviceNodes()
    expect(await find('/dev/null', '/dev/shm', '/dev/fd/0', '/dev/stdin')).toEqual({
      '/dev/null': { type: 'char', major: 1, minor: 3 },
    })
  })
})
