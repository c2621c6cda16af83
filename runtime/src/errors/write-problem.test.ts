import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { writeProblem } from './write-problem.mjs'

let clone: string

beforeEach(async () => {
  clone = await temporaryDirectory()
})

const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
const needsRoot = owner.uid === 0 ? '' : ' (needs root)'
const other = { uid: owner.uid + 1, gid: 100 }
const elsewhere = 'use another directory'
const problem = (text: string, user = other) =>
  writeProblem(text, { directories: [clone], elsewhere }, user)

describe('the line for a file that cannot be written', () => {
  it('has the command that gives files of another user to this user', () => {
    mkdirSync(path.join(clone, 'dist'))
    writeFileSync(path.join(clone, 'dist/akri.js'), '')
    const name = owner.uid === 0 ? 'root' : `user ${owner.uid}`
    const command = `run sudo chown -R ${other.uid}:100 ${clone}`
    for (const [text, file] of [
      [`EPERM: operation not permitted, chmod '${clone}/dist/akri.js'`, 'dist/akri.js'],
      [`EACCES: permission denied, mkdir '${clone}/dist/a/b'`, 'dist'],
      [`listen EACCES: permission denied ${clone}/dist/lock.sock`, 'dist'],
      [
        `npm error code EACCES\nnpm error syscall mkdir\nnpm error path ${clone}/dist/a\n` +
          "npm error errno -13\nnpm error [Error: EACCES: permission denied, mkdir '/x']",
        'dist',
      ],
    ] as const)
      expect(problem(text)).toBe(`${path.join(clone, file)} belongs to ${name}: ${command}`)
  })

  it.skipIf(owner.uid !== 0)(
    `names what another user has, of both files of a move${needsRoot}`,
    () => {
      const user = { uid: 4711, gid: 4711 }
      for (const name of ['mine', 'others']) mkdirSync(path.join(clone, name))
      for (const name of ['.', 'mine']) chownSync(path.join(clone, name), user.uid, user.gid)
      for (const files of [
        `'${clone}/mine/a' -> '${clone}/others/b'`,
        `'${clone}/others/a' -> '${clone}/mine/b'`,
      ])
        expect(problem(`EACCES: permission denied, rename ${files}`, user)).toBe(
          `${clone}/others belongs to root: run sudo chown -R 4711:4711 ${clone}`,
        )
    },
  )

  it('quotes a directory for the shell', () => {
    const odd = path.join(clone, "it's here")
    mkdirSync(odd)
    const place = { directories: [odd], elsewhere }
    expect(writeProblem(`EACCES: permission denied, open '${odd}/x'`, place, other)).toContain(
      `chown -R ${other.uid}:100 '${clone}/it'\\''s here'`,
    )
  })

  it('has the command for files of this user that the user may not write', () => {
    const user = { uid: owner.uid, gid: owner.gid }
    const text = `EACCES: permission denied, mkdir '${clone}/dist'`
    const expected =
      owner.uid === 0
        ? `this user may not write ${clone}/dist: ${elsewhere}`
        : `this user may not write ${clone}/dist: run chmod -R u+rwX ${clone}`
    expect(problem(text, user)).toBe(expected)
  })

  it('never advises to change files outside of the directories of this user', () => {
    expect(problem(`EACCES: permission denied, mkdir '/etc/akri'`)).toBe(
      `this user may not write /etc/akri: ${elsewhere}`,
    )
    expect(problem(`EACCES: permission denied, mkdir '${clone}-2/x'`)).toContain(elsewhere)
  })

  it('names a file system that is read-only or full, and a quota', () => {
    expect(problem(`EROFS: read-only file system, open '${clone}/x'`)).toBe(
      `the file system of ${clone}/x is read-only: ${elsewhere}`,
    )
    expect(problem('ENOSPC: no space left on device, write')).toBe(
      `the file system of ${clone} is full: free some space`,
    )
    expect(problem('EDQUOT: disk quota exceeded, write')).toBe(
      `the disk quota for ${clone} is used up: free some space`,
    )
  })

  it('is absent for any other problem', () => {
    expect(problem(`ENOENT: no such file or directory, open '${clone}/x'`)).toBeUndefined()
    expect(
      problem("ENOSPC: System limit for number of file watchers reached, watch '/x'"),
    ).toBeUndefined()
    expect(problem('Build failed with 1 error')).toBeUndefined()
  })
})
