import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

it('finds a device for each file, and says what is wrong with others', async (t) => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'devices-'))
  t.after(() => rm(directory, { recursive: true }))
  const files = {
    'a.json': '{ "id": "pump-1", "properties": { "URL": "http://pump-1" } }',
    'b.json': '{ "id": "pump-1" }',
    'c.json': '{ "id": ',
    'notes.txt': 'pumps',
  }
  for (const [name, text] of Object.entries(files))
    await writeFile(path.join(directory, name), text)
  const session = discover(handler, { directory })
  t.after(() => session.close())
  const [pump, ...others] = await session.next()
  assert.deepEqual([pump.id, pump.properties], ['pump-1', { DEVICE_FILES_URL: 'http://pump-1' }])
  assert.deepEqual(others, [])
  assert.deepEqual(
    session.leftOut.map(({ id, reason }) => [id, reason]),
    [
      ['b.json', 'another file has its id'],
      ['c.json', 'is no device'],
    ],
  )
})

it('refuses a directory that does not begin at the root', async (t) => {
  const session = discover(handler, { directory: 'devices' })
  t.after(() => session.close())
  await assert.rejects(session.next(), /directory/)
})
