import assert from 'node:assert/strict'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
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
