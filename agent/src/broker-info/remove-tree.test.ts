import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
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
afterEach(() => {
  expect(readdirSync(path.join(outside, 'precious'))).toEqual(['file'])
  // Node's own rm fails on names that are no text.
  execFileSync('rm', ['-rf', outside])
})

describe('removing the directory of another process', () => {
  it.each([
    [
      'files, directories, pipes and links, and no target of a link',
      'mkdir -p a/b/c; touch a/b/f .hidden; mkfifo a/pipe; ln -s ../precious; cp -P precious a',
    ],
    [
      'directories that are deeper than the longest path',
      'd=a-name-of-some-length; for i in $(seq 600); do mkdir $d; cd -P $d; done; touch file',
    ],
    [
      'directories whose owner has no right to them',
      'mkdir -p a/b; touch a/b/file; chmod 0 a/b a .',
    ],
    ['very many files', 'seq 1 5000 | xargs touch'],
    ['names that are not text', `d=$(printf '\\377 \\303'); mkdir "$d"; touch "$d/$d"`],
    ['nothing if the directory does not exist', 'rmdir ../tree'],
  ])('removes %s', async (_what, script) => {
    execFileSync('/bin/bash', ['-c', script], { cwd: directory })
    await removeTree(directory, never)
    expect(existsSync(directory)).toBe(false)
  })

  it('never leaves the directory, although links replace directories meanwhile', async () => {
    const script = `const fs = require('fs')
for (let round = 0; ; round++) {
  const name = 'd' + (round % 5)
  try {
    process.chdir(${JSON.stringify(directory)})
    fs.mkdirSync(name, { recursive: true })
    fs.writeFileSync(name + '/file', 'x')
    fs.symlinkSync(${JSON.stringify(path.join(outside, 'precious'))}, name + '.link')
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
      await once(churning, 'exit')
    }
  })
})
