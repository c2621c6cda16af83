import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { listDirectory, readText } from './sysfs-files.js'

/** Opens files until the process has no descriptor left. @returns a function that closes them */
function takeAllDescriptors(): () => void {
  const taken: number[] = []
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'))
  } catch (error) {
    expect(error).toMatchObject({ code: 'EMFILE' })
  }
  return () => taken.splice(0).forEach(closeSync)
}

function limitDescriptors(limit: string): void {
  execFileSync('prlimit', ['--pid', String(process.pid), `--nofile=${limit}:`])
}

it('reads directories and files while the process has no descriptor left', () => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-files-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const file = path.join(directory, 'uevent')
  writeFileSync(file, 'DEVNAME=video0\n')
  const read = () => [listDirectory(directory), readText(file), readText(file, 1_000_000)]
  const present = read()
  const limit = execFileSync('prlimit', ['--nofile', '--output=SOFT', '--noheadings'])
  limitDescriptors('1024')
  const release = takeAllDescriptors()
  const results = [read(), read()]
  release()
  limitDescriptors(String(limit).trim())
  expect(present).toEqual([['uevent'], 'DEVNAME=video0\n', 'DEVNAME=video0\n'])
  expect(results).toEqual([present, present])
  expect([listDirectory(`${directory}/none`), readText(`${directory}/none`)]).toEqual([
    [],
    undefined,
  ])
})
