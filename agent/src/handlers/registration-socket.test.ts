import { stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { beforeEach, expect, it, vi } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { openRegistrationSocket } from './registration-socket.js'

/** Root may give files to any group, other users to their own groups. */
const GROUP = process.getuid?.() === 0 ? 65_520 : (process.getegid?.() ?? 0)

let parent: string

beforeEach(async () => {
  parent = await temporaryDirectory()
})

it('the group of handlers may make sockets, and remove no socket of other users', async () => {
  const directory = path.join(parent, 'd')
  const options = { directory, group: GROUP, log: silentLogger }
  const socket = await openRegistrationSocket(options, () => {})
  const rights = async (...names: string[]) => {
    const { mode, gid } = await stat(path.join(directory, ...names))
    return [(mode & 0o7777).toString(8), gid]
  }
  // With the sticky bit, members remove only their own files.
  expect(await rights()).toEqual(['1770', GROUP])
  expect(await rights('agent-registration.sock')).toEqual(['660', GROUP])
  await socket.close()
})

it('a directory that cannot be opened to the group is told with a remedy', async () => {
  const file = path.join(parent, 'file')
  await writeFile(file, '')
  const error = vi.fn()
  const options = { directory: path.join(file, 'd'), group: 7, log: { ...silentLogger, error } }
  await expect(openRegistrationSocket(options, () => {})).rejects.toThrow()
  const err = { message: expect.stringContaining('must have supplementalGroups: [7]') }
  expect(error.mock.calls).toMatchObject([
    [{ err }, 'directory of handlers not opened to their group'],
  ])
})
