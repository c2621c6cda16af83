import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

/** A program in place of bluetoothctl, which prints its arguments and these lines. */
async function program(t, ...lines) {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'bluetooth-'))
  t.after(() => rm(directory, { recursive: true }))
  const file = path.join(directory, 'bluetoothctl')
  await writeFile(
    file,
    ['#!/bin/sh', 'echo "$@"', ...lines.map((line) => `echo '${line}'`)].join('\n'),
  )
  await chmod(file, 0o755)
  return file
}

it('finds what bluetoothctl lists', async (t) => {
  const line = 'Device 00:11:22:33:44:FF Hall sensor'
  const details = { program: await program(t, line, 'Controller AA:BB'), filter: 'Paired' }
  const session = discover(handler, details)
  t.after(() => session.close())
  const [device, ...others] = await session.next()
  assert.deepEqual(others, [])
  assert.deepEqual(device.properties, {
    BLUETOOTH_ADDRESS: '00:11:22:33:44:FF',
    BLUETOOTH_NAME: 'Hall sensor',
  })
})

it('says what to do if there are none, and what failed', async (t) => {
  const none = discover(handler, { program: await program(t) })
  const missing = discover(handler, { program: '/nonexistent/bluetoothctl' })
  t.after(() => Promise.all([none.close(), missing.close()]))
  assert.deepEqual(await none.next(), [])
  assert.deepEqual(none.remarks, ['pair devices first: bluetoothctl pair ADDRESS'])
  await assert.rejects(missing.next(), /ENOENT/)
})
