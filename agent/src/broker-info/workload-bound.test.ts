import { execFileSync } from 'node:child_process'
import {
  chmod,
  chown,
  link,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  stat,
  symlink,
  truncate,
  unlink,
  writeFile,
} from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { runScript } from '../testing/run-script.js'
import { boundWorkload, MAX_DISK_BYTES, MAX_DISK_FILES } from './workload-bound.js'

/** The file `ahead` was changed before the clock of the machine was set back by an hour. */
vi.mock(import('node:fs/promises'), async (importOriginal) => {
  const original = await importOriginal()
  const lstat = new Proxy(original.lstat, {
    async apply(target, self, args) {
      const stats = await Reflect.apply(target, self, args)
      if (String(args[0]).endsWith('/ahead')) stats.ctimeNs += 3_600_000_000_000n
      return stats
    },
  })
  return { ...original, lstat }
})

const never = new AbortController().signal
const TOO_MUCH = Buffer.alloc(MAX_DISK_BYTES + 4096, 'x')

let outside: string
let directory: string

beforeEach(async () => {
  outside = await mkdtemp(path.join(os.tmpdir(), 'akri-bound-'))
  directory = path.join(outside, 'own')
  await mkdir(directory)
  await chmod(directory, 0o777)
  await writeFile(path.join(outside, 'precious'), TOO_MUCH)
})
afterEach(() => execFileSync('rm', ['-rf', outside]))

const at = (name: string) => path.join(directory, name)
const bound = () => boundWorkload(directory, never)
const excess = async () => (await bound()).excess
const changeTimes = async () => (await bound()).changeTimes
const blocks = async (name: string) => (await stat(at(name))).blocks
const mode = async () => (await stat(directory)).mode & 0o777

describe('the directory of a workload', () => {
  it('stays as it is within its bound, also with a file of holes', async () => {
    await writeFile(at('report'), 'x'.repeat(4096))
    await writeFile(at('large'), Buffer.alloc(MAX_DISK_BYTES / 2, 'x'))
    await writeFile(at('holes'), '')
    await truncate(at('holes'), 2 ** 40)
    await symlink('/', at('link'))
    expect(await excess()).toBeUndefined()
    expect(await readdir(directory)).toHaveLength(4)
    expect(await mode()).toBe(0o777)
  })

  it.each<[string, () => Promise<unknown>]>([
    ['a large file', () => writeFile(at('large'), TOO_MUCH)],
    ['a hidden file', () => writeFile(at('.large'), TOO_MUCH)],
    [
      'many files',
      async () => {
        for (let i = 0; i <= MAX_DISK_FILES; i++) await writeFile(at(`file-${i}`), '')
      },
    ],
  ])('loses all content beyond its bound, and is closed: %s', async (_what, fill) => {
    await writeFile(at('report'), 'x')
    await fill()
    expect(await excess()).toBe('disk')
    const rest = await Promise.all((await readdir(directory)).map(blocks))
    expect(rest.filter((count) => count > 0)).toEqual([])
    expect(await mode()).toBe(0o700)
  })

  it('takes no more room for a file that stays open, if the agent may write to it', async () => {
    const file = await open(at('log'), 'a')
    try {
      for (let round = 0; round < 3; round++) {
        await file.write(TOO_MUCH)
        expect(await excess()).toBe('disk')
        expect((await file.stat()).blocks).toBe(0)
      }
    } finally {
      await file.close()
    }
  })

  it.each([
    ['a', 'directory'],
    ['a/b', 'inner'],
  ])('loses directories, which no watch shows, and keeps its files: %s', async (name, found) => {
    await mkdir(at(name), { recursive: true })
    await writeFile(at('report'), 'x')
    expect(await excess()).toBe(found)
    expect(await readdir(directory)).toEqual(['report'])
    expect(await mode()).toBe(0o777)
  })

  it('never takes anything outside with it', async () => {
    await writeFile(at('large'), TOO_MUCH)
    await symlink(path.join(outside, 'precious'), at('link'))
    await link(path.join(outside, 'precious'), at('other-name'))
    execFileSync('mkfifo', [at('pipe')])
    await bound()
    expect(await readdir(directory)).toEqual(['large'])
    expect(await readFile(path.join(outside, 'precious'))).toEqual(TOO_MUCH)
  })

  it('shows when something in it last changed, and no write to a file without a name', async () => {
    const hidden = await open(at('log'), 'a')
    try {
      await hidden.write('x')
      await unlink(at('log'))
      const before = await changeTimes()
      await hidden.write('x')
      expect(await changeTimes()).toBe(before)
      await writeFile(at('report'), '1')
      expect(await changeTimes()).not.toBe(before)
    } finally {
      await hidden.close()
    }
  })

  it('shows each change, also after the clock of the machine was set back', async () => {
    for (const name of ['ahead', 'report']) await writeFile(at(name), '1')
    const before = await changeTimes()
    await eventually(async () => {
      await writeFile(at('report'), '2')
      expect(await changeTimes()).not.toBe(before)
    })
  })

  describe.skipIf(process.getuid?.() !== 0)('of another user (needs root)', () => {
    beforeEach(async () => {
      await mkdir(at('closed'))
      for (const name of ['large', 'closed/file']) await writeFile(at(name), TOO_MUCH)
      for (const name of ['large', 'closed/file', 'closed']) await chown(at(name), 4711, 4711)
      await chmod(at('closed'), 0o1700)
    })

    /** What an agent with these capabilities finds, as root. */
    const foundWith = (capabilities: string) => {
      const script = `
        import { boundWorkload } from './workload-bound.js'
        const { signal } = new AbortController()
        const { excess } = await boundWorkload(${JSON.stringify(directory)}, signal)
        console.log(JSON.stringify(excess))`
      const limited = ['setpriv', '--inh-caps=-all', `--bounding-set=-all${capabilities}`]
      return runScript(limited, script, { resolveDir: import.meta.dirname, directory: outside })
    }

    it('loses all as well, with the capabilities that the agent has in its Pod', async () => {
      await chown(directory, 4711, 4711)
      await chmod(directory, 0o700)
      expect(await foundWith(',+dac_override,+fowner')).toBe('disk')
      expect(await readdir(directory)).toEqual(['large'])
      expect(await blocks('large')).toBe(0)
    })

    it('keeps what the agent has no right to remove, and says so', async () => {
      expect(await foundWith('')).toBe('closed')
      expect(await readdir(directory)).toEqual(['closed'])
      await chown(directory, 4711, 4711)
      await chmod(directory, 0o700)
      expect(await foundWith('')).toBe('closed')
    })
  })
})
