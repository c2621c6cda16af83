import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { ProjectError } from './errors.js'
import { checkTarget, writeProject } from './project.js'

let directory: string
const FILES = new Map([
  ['package.json', '{}'],
  ['src/deep/handler.js', 'export {}'],
])
const { signal } = new AbortController()

beforeEach(async () => {
  directory = await temporaryDirectory()
})

const at = (name: string) => path.join(directory, name)

it('appears with all its files, in a new directory or in an empty one', async () => {
  await mkdir(at('empty'))
  for (const name of ['new', 'empty']) {
    await writeProject(await checkTarget(at(name)), FILES, signal)
    expect(await readFile(at(`${name}/src/deep/handler.js`), 'utf8')).toBe('export {}')
  }
  expect((await readdir(directory)).sort()).toEqual(['empty', 'new'])
})

it.each([
  ['is a file', () => writeFile(at('x'), ''), 'is there already'],
  ['has content', () => mkdir(at('x/y'), { recursive: true }), 'is there already'],
  ['is a link', () => symlink(directory, at('x')), 'is there already'],
  ['is a link to nothing', () => symlink('none', at('x')), 'is there already'],
])('is refused if the directory %s', async (_, prepare, message) => {
  await prepare()
  await expect(checkTarget(at('x'))).rejects.toThrow(ProjectError)
  await expect(checkTarget(at('x'))).rejects.toThrow(message)
})

it('is refused in a directory that is missing, and as the working directory', async () => {
  await expect(checkTarget(at('none/x'))).rejects.toThrow(`there is no directory ${at('none')}`)
  await expect(checkTarget('.')).rejects.toThrow('is the working directory')
})

it('leaves nothing if the directory has got content since it was checked', async () => {
  const target = await checkTarget(at('x'))
  await mkdir(at('x'))
  await writeFile(at('x/mine'), 'kept')
  await expect(writeProject(target, FILES, signal)).rejects.toThrow('is there already')
  expect(await readdir(directory)).toEqual(['x'])
  expect(await readdir(at('x'))).toEqual(['mine'])
})

it('leaves nothing if a file cannot be written', async () => {
  const clashing = new Map([
    ['a', ''],
    ['a/b', ''],
  ])
  await expect(writeProject(at('x'), clashing, signal)).rejects.toThrow(/x cannot be written: /)
  expect(await readdir(directory)).toEqual([])
})

it('leaves nothing if it is stopped', async () => {
  await expect(writeProject(at('x'), FILES, AbortSignal.abort())).rejects.toThrow(/abort/)
  expect(await readdir(directory)).toEqual([])
})
