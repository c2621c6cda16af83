import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { missingForNoWatches, runScript, WITHOUT_WATCHES } from '../testing/run-script.js'
import { WorkloadDirectories } from './workload-directories.js'

const instance = objectKey('factory', 'cam-8120fe')
const slot = 'cam-8120fe-0' as SlotName

let root: string
let directories: WorkloadDirectories

beforeEach(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), 'akri-directories-'))
  directories = new WorkloadDirectories(path.join(root, 'd'), silentLogger)
})
afterEach(async () => {
  await directories.close()
  execFileSync('rm', ['-rf', root])
})

const made = () => readdirSync(path.join(root, 'd')).sort()
const NAME = 'factory_cam-8120fe-0'

const runBy = (command: readonly string[], script: string) =>
  runScript(command, script, { resolveDir: import.meta.dirname, directory: root })

describe('the directories of workloads', () => {
  it('R68 are found by the next agent, without other directories', async () => {
    expect(directories.open()).toEqual([])
    const directory = directories.renew(instance, slot)
    await directories.close()
    for (const other of ['lost+found', '.gone-123456']) await mkdir(path.join(root, 'd', other))
    await writeFile(path.join(root, 'd/factory_file-0'), '')
    directories = new WorkloadDirectories(path.join(root, 'd'), silentLogger)
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
    directories.drop(directory)
    await directories.removeAside()
    expect(made()).toEqual([])
  })

  it.skipIf(process.getuid?.() !== 0)(
    'R68 are moved aside, and logged once, if an agent may not remove them (needs root)',
    async () => {
      const inner = path.join(root, 'd', NAME, 'inner')
      await mkdir(inner, { recursive: true })
      await writeFile(path.join(inner, 'file'), '')
      await chmod(path.dirname(inner), 0o777)
      for (const entry of [inner, path.join(inner, 'file')]) await chown(entry, 4711, 4711)
      const script = `
        import { readdirSync } from 'node:fs'
        import { WorkloadDirectories } from './workload-directories.js'
        const warnings = []
        const log = { warn: (_fields, message) => warnings.push(message) }
        const directories = new WorkloadDirectories(${JSON.stringify(path.join(root, 'd'))}, log)
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
    'R68 are missing while a container fills their file system, and leave nothing (needs root)',
    async () => {
      const d = path.join(root, 'd')
      const script = `
        import { readdirSync, rmSync, writeFileSync } from 'node:fs'
        import { WorkloadDirectories } from './workload-directories.js'
        const directories = new WorkloadDirectories(${JSON.stringify(d)}, console)
        directories.open()
        const renew = (slot) => {
          try { return directories.renew('factory/x', slot) && 'made' }
          catch ({ code }) { return code }
        }
        const full = []
        renew('hostile-0')
        const isFull = [await directories.isFull()]
        const hostile = ${JSON.stringify(path.join(d, 'factory_hostile-0'))}
        try { writeFileSync(hostile + '/bytes', Buffer.alloc(2 ** 20)) }
        catch ({ code }) { full.push(code) }
        isFull.push(await directories.isFull())
        const others = [renew('other-0')]
        rmSync(hostile + '/bytes')
        // All files that the file system has room for.
        let files = 0
        try { for (;;) writeFileSync(hostile + '/' + files++, '') }
        catch ({ code }) { full.push(code) }
        isFull.push(await directories.isFull())
        others.push(renew('next-0'))
        const left = readdirSync(${JSON.stringify(d)}).sort()
        rmSync(hostile + '/0')
        others.push(renew('next-0'))
        await directories.close()
        console.log(JSON.stringify([full, isFull, others, left]))`
      const filled = `mkdir ${d} && mount -t tmpfs -o size=64k,nr_inodes=64 akri ${d} && exec "$@"`
      const command = ['unshare', '--mount', '/bin/sh', '-c', filled, 'sh']
      expect(await runBy(command, script)).toEqual([
        ['ENOSPC', 'ENOSPC'],
        [false, true, true],
        ['made', 'ENOSPC', 'made'],
        ['factory_hostile-0', 'factory_other-0'],
      ])
    },
  )

  it('R69 are polled if the kernel has no watch left', async (context) => {
    const missing = missingForNoWatches()
    if (missing !== undefined) context.skip(missing)
    const script = `
      import { watch, writeFileSync } from 'node:fs'
      import { Workload } from './workload.js'
      let refused = false
      try { watch('/') } catch { refused = true }
      const workload = new Workload(${JSON.stringify(path.join(root, 'd'))}, true, {})
      await workload.read()
      writeFileSync(${JSON.stringify(path.join(root, 'd/a'))}, '1')
      const { isDue } = workload
      await workload.read()
      console.log(JSON.stringify([refused, isDue, [...workload.files]]))`
    directories.open()
    const answer = await runBy(WITHOUT_WATCHES, script)
    expect(answer).toEqual([true, true, [['a', '1']]])
  })
})
