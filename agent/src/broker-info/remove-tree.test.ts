import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { removeTree } from './remove-tree.js'

let outside: string
let directory: string
const never = new AbortController().signal

beforeEach(async () => {
  outside = await mkdtemp(path.join(os.tmpdir(), 'akri-remove-'))
  directory = path.join(outside, 'tree')
  await mkdir(directory)
  await mkdir(path.join(outside, 'precious'))
  await writeFile(path.join(outside, 'precious/file'), 'x')
})
// Node's own rm fails on names that are no text.
afterEach(() => execFileSync('rm', ['-rf', outside]))

describe('removing the directory of another process', () => {
  it('removes files, directories, pipes and links, and no target of a link', async () => {
    await mkdir(path.join(directory, 'a/b/c'), { recursive: true })
    await writeFile(path.join(directory, 'a/b/file'), 'x')
    await writeFile(path.join(directory, '.hidden'), 'x')
    await symlink(path.join(outside, 'precious'), path.join(directory, 'a/link'))
    await symlink(path.join(outside, 'precious'), path.join(directory, 'link'))
    execFileSync('mkfifo', [path.join(directory, 'a/pipe')])
    await removeTree(directory, never)
    expect(existsSync(directory)).toBe(false)
    expect(readdirSync(path.join(outside, 'precious'))).toEqual(['file'])
  })

  it('removes directories that are deeper than the longest path', async () => {
    const script = `const fs = require('fs')
for (let depth = 0; depth < 600; depth++) {
  fs.mkdirSync('a-name-of-some-length')
  process.chdir('a-name-of-some-length')
}
fs.writeFileSync('file', '')`
    execFileSync(process.execPath, ['-e', script], { cwd: directory })
    await removeTree(directory, never)
    expect(existsSync(directory)).toBe(false)
  })

  it('removes directories whose owner has no right to them', async () => {
    await mkdir(path.join(directory, 'a/b'), { recursive: true })
    await writeFile(path.join(directory, 'a/b/file'), 'x')
    for (const closed of ['a/b', 'a', '.']) await chmod(path.join(directory, closed), 0o000)
    await removeTree(directory, never)
    expect(existsSync(directory)).toBe(false)
  })

  it('removes very many files', async () => {
    execFileSync('/bin/sh', ['-c', 'seq 1 5000 | xargs touch'], { cwd: directory })
    await removeTree(directory, never)
    expect(existsSync(directory)).toBe(false)
  })

  it('removes names that are not text', async () => {
    const name = Buffer.concat([Buffer.from(`${directory}/`), Buffer.of(0xff, 0x20, 0xc3)])
    await mkdir(name)
    await writeFile(Buffer.concat([name, Buffer.from('/'), Buffer.of(0xfe)]), 'x')
    await removeTree(directory, never)
    expect(existsSync(directory)).toBe(false)
  })

  it('succeeds if the directory does not exist', async () => {
    await removeTree(path.join(outside, 'none'), never)
  })

  it('never leaves the directory, although links replace directories meanwhile', async () => {
    const precious = path.join(outside, 'precious')
    const script = `const fs = require('fs')
for (let round = 0; ; round++) {
  const name = 'd' + (round % 5)
  try {
    process.chdir(${JSON.stringify(directory)})
    fs.mkdirSync(name, { recursive: true })
    fs.writeFileSync(name + '/file', 'x')
    fs.symlinkSync(${JSON.stringify(precious)}, name + '.link')
    fs.renameSync(name, name + '.old' + round)
    fs.renameSync(name + '.link', name)
  } catch {}
}`
    const churning = spawn(process.execPath, ['-e', script], { cwd: directory, stdio: 'ignore' })
    await eventually(() => expect(readdirSync(directory)).toContain('d3'))
    try {
      for (let round = 0; round < 30; round++) {
        await removeTree(directory, never).catch(() => undefined)
        mkdirSync(directory, { recursive: true })
      }
      expect(churning.exitCode).toBeNull()
    } finally {
      churning.kill('SIGKILL')
      await new Promise((resolve) => churning.once('exit', resolve))
    }
    expect(readdirSync(precious)).toEqual(['file'])
  })
})
