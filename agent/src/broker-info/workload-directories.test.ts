import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { runScript } from '../testing/run-script.js'
import { WorkloadDirectories } from './workload-directories.js'

const instance = objectKey('factory', 'cam-8120fe')
const slot = 'cam-8120fe-0' as SlotName
const NAME = 'factory_cam-8120fe-0'

let outside: string
let root: string
let directories: WorkloadDirectories

beforeEach(async () => {
  outside = await temporaryDirectory()
  root = path.join(outside, 'd')
  directories = new WorkloadDirectories(root, silentLogger)
  await mkdir(path.join(outside, 'precious'))
  await writeFile(path.join(outside, 'precious/file'), 'x')
})
afterEach(async () => {
  await directories.close()
  expect(readdirSync(path.join(outside, 'precious'))).toEqual(['file'])
  // Node's own rm fails on names that are no text.
  execFileSync('rm', ['-rf', outside])
})

const made = () => readdirSync(root).sort()
const runBy = (command: readonly string[], script: string) =>
  runScript(command, script, { resolveDir: import.meta.dirname, directory: outside })

describe('the directories of workloads', () => {
  it('R68 are found by the next agent, without other directories', async () => {
    expect(directories.open()).toEqual([])
    const directory = directories.renew(instance, slot)
    await directories.close()
    for (const other of ['lost+found', '.gone-123456']) await mkdir(path.join(root, other))
    for (const file of ['factory_file-0', '.gone-file']) await writeFile(path.join(root, file), '')
    // A workload was faster than the move of its directory.
    await symlink('../precious', path.join(root, '.gone-link'))
    directories = new WorkloadDirectories(root, silentLogger)
    expect(directories.open()).toEqual([{ instance, slot, path: directory }])
    await directories.removeAside()
    expect(made()).toEqual([NAME, 'factory_file-0', 'lost+found'])
  })

  it('R68 are new, although the last workload has removed all rights from its own', async () => {
    directories.open()
    const directory = directories.renew(instance, slot)
    await mkdir(path.join(directory, 'inner'))
    await chmod(directory, 0o000)
    directories.renew(instance, slot)
    expect(await readdir(directory)).toEqual([])
    // The kubelet waits for the new directory, and not for the removal of the old one.
    expect(made()).toHaveLength(2)
    await directories.removeAside()
    expect(made()).toEqual([NAME])
  })

  it.each([
    [
      'files, directories, pipes and links, and no target of a link',
      'mkdir -p a/b/c; touch a/b/f .hidden; mkfifo a/pipe; ln -s ../../precious; cp -P precious a',
    ],
    [
      'directories that are deeper than the longest path',
      'd=a-name-of-some-length; for i in $(seq 250); do mkdir $d; cd -P $d; done; touch file',
    ],
    [
      'directories whose owner has no right to them',
      'mkdir -p a/b; touch a/b/file; chmod 0 a/b a .',
    ],
    ['names that are not text', `d=$(printf '\\377 \\303'); mkdir "$d"; touch "$d/$d"`],
    ['nothing if the directory does not exist', `rmdir "$PWD"`],
  ])('are removed with %s', async (_what, script) => {
    directories.open()
    const directory = directories.renew(instance, slot)
    execFileSync('/bin/bash', ['-c', script], { cwd: directory })
    directories.drop(directory)
    await directories.removeAside()
    expect(made()).toEqual([])
  })

  it('are never left by a removal, although links replace directories meanwhile', async () => {
    directories.open()
    const directory = directories.renew(instance, slot)
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
    try {
      for (let round = 0; round < 30; round++) {
        await eventually(() => expect(readdirSync(directory)).toContain('d3'))
        for (const inner of ['d0', 'd1', 'd2'])
          await directories
            .dropInner(Buffer.from(path.join(directory, inner)))
            .catch(() => undefined)
        directories.renew(instance, slot)
        await directories.removeAside()
      }
      expect(churning.exitCode).toBeNull()
    } finally {
      churning.kill('SIGKILL')
      await once(churning, 'exit')
    }
    await directories.removeAside()
    expect(made()).toEqual([NAME])
  })

  it.skipIf(process.getuid?.() !== 0)(
    'R68 are moved aside, and logged once, if an agent may not remove them (needs root)',
    async () => {
      const inner = path.join(root, NAME, 'inner')
      await mkdir(inner, { recursive: true })
      await writeFile(path.join(inner, 'file'), '')
      await chmod(path.dirname(inner), 0o777)
      for (const entry of [inner, path.join(inner, 'file')]) await chown(entry, 4711, 4711)
      const script = `
        import { readdirSync } from 'node:fs'
        import { WorkloadDirectories } from './workload-directories.js'
        const warnings = []
        const log = { warn: (_fields, message) => warnings.push(message) }
        const directories = new WorkloadDirectories(${JSON.stringify(root)}, log)
        directories.open()
        const own = directories.renew(${JSON.stringify(instance)}, ${JSON.stringify(slot)})
        await directories.removeAside()
        await directories.removeAside({ again: true })
        await directories.close()
        console.log(JSON.stringify([readdirSync(own), warnings]))`
      const uncapable = ['setpriv', '--inh-caps=-all', '--bounding-set=-all']
      expect(await runBy(uncapable, script)).toEqual([[], ['directory of a workload not removed']])
    },
  )

  it.skipIf(process.getuid?.() !== 0)(
    'R68 are not tried at each look if they could not be removed (needs root)',
    async () => {
      const script = `
        import { execFileSync } from 'node:child_process'
        import { mkdirSync, readdirSync } from 'node:fs'
        import { WorkloadDirectories } from './workload-directories.js'
        const directories = new WorkloadDirectories(${JSON.stringify(root)}, { warn() {} })
        directories.open()
        const inner = directories.renew('factory/x', 'x-0') + '/inner'
        mkdirSync(inner)
        execFileSync('mount', ['-t', 'tmpfs', 'akri-inner', inner])
        directories.renew('factory/x', 'x-0')
        await directories.removeAside()
        execFileSync('umount', ['akri-inner'])
        const left = []
        for (const again of [false, true]) {
          await directories.removeAside({ again })
          left.push(readdirSync(${JSON.stringify(root)}).length)
        }
        await directories.close()
        console.log(JSON.stringify(left))`
      expect(await runBy(['unshare', '--mount'], script)).toEqual([2, 1])
    },
  )

  it.skipIf(process.getuid?.() !== 0)(
    'R68 are missing while a container fills their file system, and leave nothing (needs root)',
    async () => {
      const script = `
        import { readdirSync, rmSync, writeFileSync } from 'node:fs'
        import { WorkloadDirectories } from './workload-directories.js'
        const directories = new WorkloadDirectories(${JSON.stringify(root)}, console)
        directories.open()
        const codeOf = (work) => { try { work() } catch ({ code }) { return code } }
        const renew = (slot) => codeOf(() => directories.renew('factory/x', slot))
        const hostile = directories.renew('factory/x', 'hostile-0')
        const write = (name, content) => codeOf(() => writeFileSync(hostile + '/' + name, content))
        const isFull = [await directories.isFull()]
        const codes = [write('bytes', Buffer.alloc(2 ** 20))]
        isFull.push(await directories.isFull())
        codes.push(renew('other-0'))
        rmSync(hostile + '/bytes')
        // All files that the file system has room for.
        for (let file = 0; write(file, '') === undefined; file++);
        isFull.push(await directories.isFull())
        codes.push(renew('next-0'))
        const left = readdirSync(${JSON.stringify(root)}).sort()
        rmSync(hostile + '/0')
        codes.push(renew('next-0') ?? 'made')
        await directories.close()
        console.log(JSON.stringify([codes, isFull, left]))`
      const tmpfs = 'mount -t tmpfs -o size=64k,nr_inodes=64 akri'
      const filled = `mkdir ${root} && ${tmpfs} ${root} && exec "$@"`
      const command = ['unshare', '--mount', '/bin/sh', '-c', filled, 'sh']
      expect(await runBy(command, script)).toEqual([
        ['ENOSPC', null, 'ENOSPC', 'made'],
        [false, true, true],
        ['factory_hostile-0', 'factory_other-0'],
      ])
    },
  )
})
