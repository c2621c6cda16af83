import assert from 'node:assert/strict'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { it } from 'node:test'
import { discover, ManualClock } from '@akrijs/sdk/testing'
import handler from './handler.js'

it('finds a port with its device node, until it is gone', async (t) => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'serial-'))
  await symlink('/dev/null', path.join(directory, 'usb-FTDI-if00'))
  const clock = new ManualClock()
  const session = discover(handler, { directory }, { clock })
  t.after(() => session.close())
  assert.deepEqual(await session.next(), [
    {
      id: 'usb-FTDI-if00',
      properties: { SERIAL_DEVICE: '/dev/null', SERIAL_NAME: 'usb-FTDI-if00' },
      deviceSpecs: [{ hostPath: '/dev/null', containerPath: '/dev/null', permissions: 'rw' }],
      mounts: [],
    },
  ])
  await rm(directory, { recursive: true })
  await clock.advance('2s')
  assert.deepEqual(await session.next(), [])
})

it('finds the ports of the node from a container of its own', async (t) => {
  const host = await realpath(await mkdtemp(path.join(os.tmpdir(), 'host-')))
  t.after(() => rm(host, { recursive: true }))
  await mkdir(path.join(host, 'dev/serial/by-id'), { recursive: true })
  await writeFile(path.join(host, 'dev/ttyUSB0'), '')
  await symlink('../../ttyUSB0', path.join(host, 'dev/serial/by-id/usb-FTDI-if00'))
  process.env.HOST_ROOT = host
  const { default: contained } = await import('./handler.js?contained')
  const session = discover(contained)
  t.after(() => session.close())
  const [{ deviceSpecs }] = await session.next()
  assert.equal(deviceSpecs[0].hostPath, '/dev/ttyUSB0')
})
