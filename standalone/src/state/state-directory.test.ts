import { stat, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { StateFileError } from '../errors.js'
import { makeStateDirectory } from './state-directory.js'

async function temporary(): Promise<string> {
  const directory = await temporaryDirectory()
  return directory
}

it('makes a state directory and its parents, for its user alone', async () => {
  const directory = path.join(await temporary(), 'a/b')
  await makeStateDirectory(directory)
  expect((await stat(directory)).mode & 0o777).toBe(0o700)
  expect((await stat(path.dirname(directory))).mode & 0o777).toBe(0o700)
  await makeStateDirectory(directory)
  const link = path.join(path.dirname(directory), 'link')
  await symlink(directory, link)
  await makeStateDirectory(link)
  await makeStateDirectory(`${link}/c/`)
  expect((await stat(path.join(directory, 'c'))).isDirectory()).toBe(true)
})

it('reports a state directory that cannot be made, with the reason and a remedy', async () => {
  const file = path.join(await temporary(), 'file')
  await writeFile(file, '')
  const dangling = path.join(await temporary(), 'link')
  await symlink('/no/such', dangling)
  const wrong = [
    ['/proc/x', 'its file system holds no new directories'],
    ['/proc/x/y', 'its file system holds no new directories'],
    [dangling, 'it is not a directory'],
    [file, 'it is not a directory'],
    [path.join(file, 'below'), 'a parent of it is not a directory'],
  ] as const
  for (const [directory, why] of wrong) {
    const made = expect(makeStateDirectory(directory)).rejects
    await made.toThrow(StateFileError)
    await made.toThrow(`state directory ${directory} cannot be made: ${why}; choose another one`)
  }
})
