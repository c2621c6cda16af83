import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, linkSync, mkdirSync, symlinkSync } from 'node:fs'
import * as fs from 'node:fs/promises'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { BROKER_INFO } from '../limits.js'
import { missingForNoWatches, runScript, WITHOUT_WATCHES } from '../testing/run-script.js'
import { leaveSocket } from '../testing/sockets.js'
import { Workload } from './workload.js'
import { WorkloadDirectories } from './workload-directories.js'

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

const { files: mostFiles, fileBytes, workloadBytes } = BROKER_INFO
const SECRET = 'the secret of another program'
const TOO_MUCH = Buffer.alloc(BROKER_INFO.diskBytes + 4096, 'x')
const isRoot = process.getuid?.() === 0

let outside: string
let secret: string
let directory: string
/** Of the last {@link read}. */
let mustEnd: boolean

beforeEach(async () => {
  outside = await temporaryDirectory()
  secret = path.join(outside, 'secret')
  directory = path.join(outside, 'own')
  await fs.mkdir(directory)
  await fs.chmod(directory, 0o777)
  await fs.writeFile(secret, SECRET)
})
afterEach(() => execFileSync('rm', ['-rf', outside]))

const at = (name: string) => path.join(directory, name)
const write = (name: string, content: string | Uint8Array) => fs.writeFile(at(name), content)
const blocks = async (name: string) => (await fs.stat(at(name))).blocks
const mode = async () => (await fs.stat(directory)).mode & 0o777
const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => `f${String(index).padStart(3, '0')}`)

async function read(where = directory) {
  const messages: string[] = []
  const onRefusal = (message: string) => messages.push(message)
  const directories = new WorkloadDirectories(outside, silentLogger)
  const dropInner = (inner: Buffer) => directories.dropInner(inner)
  const workload = new Workload(where, false, { onChange() {}, onRefusal, dropInner })
  await workload.read()
  workload.close()
  mustEnd = workload.mustEnd
  return { files: Object.fromEntries(workload.files), messages }
}

/** What an agent with these capabilities reads, as root; without them if this is not root. */
function readWith(capabilities: string): Promise<unknown> {
  const script = `
    import { Workload } from './workload.js'
    import { leaveSocket } from '../testing/sockets.js'
import { WorkloadDirectories } from './workload-directories.js'
    const messages = []
    const onRefusal = (message) => messages.push(message)
    const directories = new WorkloadDirectories(${JSON.stringify(outside)}, console)
    const dropInner = (inner) => directories.dropInner(inner)
    const options = { onChange() {}, onRefusal, dropInner }
    const workload = new Workload(${JSON.stringify(directory)}, false, options)
    await workload.read()
    const files = Object.fromEntries(workload.files)
    console.log(JSON.stringify({ files, messages }))`
  const limited = ['setpriv', '--inh-caps=-all', `--bounding-set=-all${capabilities}`]
  const place = { resolveDir: import.meta.dirname, directory: outside }
  return runScript(isRoot ? limited : [], script, place)
}

const A_DEVICE: [string, () => unknown, RegExp] = [
  'a device, which is not opened',
  () => execFileSync('mknod', [at('x'), 'c', '1', '5']),
  /"x" is not a regular file/,
]

describe('the files of a workload', () => {
  it('R69 are names and contents, without control characters or hidden files', async () => {
    await write('firmware-version', '2.4.1\n')
    await write('Status.txt', 'grün')
    await write('empty', '')
    await write('report', 'a\tb\r\nc\n\u001b[2J\u0000\u009b1m\u202egpj\u2028')
    await write('.firmware-version.tmp', '2.')
    expect(await read()).toEqual({
      files: {
        'firmware-version': '2.4.1\n',
        'Status.txt': 'grün',
        empty: '',
        report: 'a\tb\nc\n\ufffd[2J\ufffd\ufffd1m\ufffdgpj\ufffd',
      },
      messages: [],
    })
  })

  it('R69 are none if the directory is gone, or is no directory any more', async () => {
    await write('file', 'x')
    await fs.symlink(outside, at('link'))
    for (const name of ['none', 'file', 'link'])
      expect(await read(at(name))).toEqual({ files: {}, messages: [] })
  })

  it.each<[string, () => unknown, RegExp]>([
    ['a link', () => symlinkSync(secret, at('x')), /"x" is not a regular file/],
    ['a pipe', () => execFileSync('mkfifo', [at('x')]), /"x" is not a regular file/],
    ['another name of a file elsewhere', () => linkSync(secret, at('x')), /"x" .* hard link/],
    ['a large file', () => write('x', 'x'.repeat(fileBytes + 1)), /"x" has more than 4096 bytes/],
    ['a file of holes', () => execFileSync('truncate', ['-s', '1T', at('x')]), /more than 4096/],
    ['what is not UTF-8', () => write('x', Uint8Array.of(0x66, 0xff)), /"x" is not text in UTF-8/],
    ['a name with a space', () => write('a b', 'x'), /"a b" is no name; write letters/],
    ['a long name that is not plain', () => write('ä'.repeat(100), 'x'), /"ä{100}" is no name/],
    ['the name of a prototype', () => write('__proto__', 'x'), /"__proto__" is no name/],
    ['a name like an option', () => write('-rf', 'x'), /"-rf" is no name/],
    ['a socket', () => leaveSocket(at('x')), /"x" is not a regular file/],
    // Only root can make a device, here that of a clock.
    ...(isRoot ? [A_DEVICE] : []),
    ['a directory', () => mkdirSync(at('x')), /it had a directory, which is removed; write files/],
  ])('R69 do not include %s, and a message says why', async (_what, make, message) => {
    await make()
    await write('good', 'still here')
    const messages = [expect.stringMatching(message)]
    expect(await read()).toEqual({ files: { good: 'still here' }, messages })
    expect(mustEnd).toBe(false)
  })

  it.skipIf(spawnSync('python3', ['--version']).status !== 0)(
    'R69 do not include a file with a lease, and no look waits for its owner (needs python3)',
    async () => {
      await write('x', 'kept')
      // Node has no F_SETLEASE: another process that opens the file has to wait for its owner.
      const python =
        'import fcntl,os,sys,time;f=os.open(sys.argv[1],os.O_RDWR);' +
        'fcntl.fcntl(f,fcntl.F_SETLEASE,1);print("kept",flush=True);' +
        'import signal;signal.signal(signal.SIGIO,signal.SIG_IGN);time.sleep(60)'
      const keeper = spawn('python3', ['-c', python, at('x')])
      await once(keeper.stdout, 'data')
      expect(await read()).toEqual({
        files: {},
        messages: [expect.stringMatching(/cannot be read/)],
      })
      keeper.kill('SIGKILL')
    },
  )

  it.each<[string, [string, string][], string[], RegExp]>([
    [
      'files',
      numbered(mostFiles + 5).map((name) => [name, 'x']),
      numbered(mostFiles),
      /more than 32 files; "f032" and those after it/,
    ],
    [
      'files, without those whose names are not reported',
      ['#f#', '#g#', ...numbered(mostFiles)].map((name) => [name, 'x']),
      numbered(mostFiles),
      /"#f#" is no name/,
    ],
    [
      'bytes',
      [...'abcdef'].map((name) => [name, name === 'f' ? '' : 'x'.repeat(workloadBytes / 4)]),
      [...'abcdf'],
      /more than 16384 bytes; "e" is left out/,
    ],
    [
      'bytes of replaced characters',
      [...'ab'].map((name) => [name, '\u0001'.repeat(fileBytes)]),
      ['a'],
      /more than 16384 bytes; "b" is left out/,
    ],
  ])('R69 are bounded in their number of %s', async (_what, contents, wanted, message) => {
    for (const [name, content] of contents) await write(name, content)
    const { files, messages } = await read()
    expect(Object.keys(files)).toEqual(wanted)
    expect(messages).toEqual([expect.stringMatching(message)])
  })

  it('R69 have no content from outside while names change', async () => {
    const script = `const fs = require('node:fs')
      for (let round = 0; ; round++) {
        if (round % 2) fs.symlinkSync('../secret', 'next')
        else fs.writeFileSync('next', 'mine')
        fs.renameSync('next', 'f' + (round % 3))
      }`
    const writer = spawn(process.execPath, ['-e', script], { cwd: directory, stdio: 'inherit' })
    const ended = once(writer, 'exit')
    let seen = 0
    try {
      await eventually(() => expect(existsSync(at('f2'))).toBe(true))
      for (let round = 0; round < 150; round++) {
        const texts = Object.values((await read()).files)
        for (const text of texts) expect(text).toMatch(/^(mine)?$/)
        seen += texts.length
      }
      expect(writer.exitCode).toBeNull()
    } finally {
      writer.kill('SIGKILL')
      await ended
    }
    expect(seen).toBeGreaterThan(0)
  })

  it('R69 do not include a file that the agent may not read', async () => {
    await write('x', 'x')
    await fs.chmod(at('x'), 0o000)
    if (isRoot) await fs.chown(at('x'), 4711, 4711)
    const message = '"x" cannot be read by the agent; let all users read it'
    expect(await readWith('')).toEqual({ files: {}, messages: [message] })
  })
})

describe('the directory of a workload', () => {
  it('stays as it is within its bound, also with a file of holes', async () => {
    await write('large', Buffer.alloc(BROKER_INFO.diskBytes / 2, 'x'))
    execFileSync('truncate', ['-s', '1T', at('holes')])
    await fs.symlink('/', at('link'))
    await read()
    expect([mustEnd, await mode()]).toEqual([false, 0o777])
    expect(await fs.readdir(directory)).toHaveLength(3)
  })

  it.each<[string, () => unknown]>([
    ['a large file', () => write('large', TOO_MUCH)],
    ['a hidden file', () => write('.large', TOO_MUCH)],
    [
      'many files',
      () => Promise.all(numbered(BROKER_INFO.diskFiles + 1).map((name) => write(name, ''))),
    ],
  ])('loses all content beyond its bound, and is closed: %s', async (_what, fill) => {
    await write('report', 'x')
    await fill()
    const message = /it kept more than 1024 KiB or 1000 files; nothing is reported until another/
    expect(await read()).toEqual({ files: {}, messages: [expect.stringMatching(message)] })
    const rest = await Promise.all((await fs.readdir(directory)).map(blocks))
    expect(rest.filter((count) => count > 0)).toEqual([])
    expect([mustEnd, await mode()]).toEqual([true, 0o700])
  })

  it('takes no more room for a file that stays open, if the agent may write to it', async () => {
    await using file = await fs.open(at('log'), 'a')
    for (let round = 0; round < 3; round++) {
      await file.write(TOO_MUCH)
      await read()
      expect([mustEnd, (await file.stat()).blocks]).toEqual([true, 0])
    }
  })

  it('loses directories, which no watch shows, and keeps its files', async () => {
    await fs.mkdir(at('a/b'), { recursive: true })
    await write('report', 'x')
    const message = /it had files in a directory, which are removed; nothing is reported/
    expect(await read()).toEqual({ files: {}, messages: [expect.stringMatching(message)] })
    expect(await fs.readdir(directory)).toEqual(['report'])
    expect([mustEnd, await mode()]).toEqual([true, 0o777])
  })

  it('never takes anything outside with it', async () => {
    await fs.writeFile(secret, TOO_MUCH)
    await write('large', TOO_MUCH)
    await fs.symlink(secret, at('link'))
    await fs.link(secret, at('other-name'))
    execFileSync('mkfifo', [at('pipe')])
    await read()
    expect(await fs.readdir(directory)).toEqual(['large'])
    expect((await fs.readFile(secret)).equals(TOO_MUCH)).toBe(true)
  })

  it('ends its workload after five looks in a row for hidden writes only', async () => {
    // Also after the clock of the machine was set back.
    for (const name of ['ahead', 'report', 'log']) await write(name, '1')
    await using hidden = await fs.open(at('log'), 'a')
    await fs.unlink(at('log'))
    const [onChange, dropInner] = [vi.fn(), vi.fn()]
    const workload = new Workload(directory, false, { onChange, onRefusal() {}, dropInner })
    await workload.read()
    const lookAfter = async (change: () => Promise<unknown>) => {
      onChange.mockClear()
      await change()
      await eventually(() => expect(onChange).toHaveBeenCalled())
      await workload.read()
      return workload.mustEnd
    }
    // No change with a name counts as hidden, however many there are.
    for (let time = 0; time < 3; time++)
      for (const change of [
        () => write('.new', 'x'),
        () => fs.rename(at('.new'), at('new')),
        () => fs.rm(at('new')),
      ])
        expect(await lookAfter(change)).toBe(false)
    for (const [times, ends] of [
      [4, false],
      [5, true],
    ] as const) {
      await lookAfter(() => write('report', '2'))
      let last = false
      for (let time = 0; time < times; time++) last = await lookAfter(() => hidden.write('x'))
      expect([last, workload.files.size === 0]).toEqual([ends, ends])
    }
    workload.close()
  })

  it('R69 is polled if the kernel has no watch left', async (context) => {
    const missing = missingForNoWatches()
    if (missing !== undefined) context.skip(missing)
    const script = `
      import { watch, writeFileSync } from 'node:fs'
      import { Workload } from './workload.js'
      let refused = false
      try { watch('/') } catch { refused = true }
      const workload = new Workload(${JSON.stringify(directory)}, true, {})
      await workload.read()
      writeFileSync(${JSON.stringify(at('a'))}, '1')
      const { isDue } = workload
      await workload.read()
      console.log(JSON.stringify([refused, isDue, [...workload.files]]))`
    const place = { resolveDir: import.meta.dirname, directory: outside }
    expect(await runScript(WITHOUT_WATCHES, script, place)).toEqual([true, true, [['a', '1']]])
  })

  describe.skipIf(!isRoot)('of another user (needs root)', () => {
    beforeEach(async () => {
      await fs.mkdir(at('closed'))
      for (const name of ['large', 'closed/file']) await write(name, TOO_MUCH)
      for (const name of ['large', 'closed/file', 'closed']) await fs.chown(at(name), 4711, 4711)
      await fs.chmod(at('closed'), 0o1700)
    })

    it('loses all as well, with the capabilities that the agent has in its Pod', async () => {
      await fs.chown(directory, 4711, 4711)
      await fs.chmod(directory, 0o700)
      expect(await readWith(',+dac_override,+fowner')).toMatchObject({ files: {} })
      expect(await fs.readdir(directory)).toEqual(['large'])
      expect(await blocks('large')).toBe(0)
    })

    it('keeps what the agent has no right to remove, and says so', async () => {
      const closed = expect.arrayContaining([expect.stringMatching(/may not look into its dir/)])
      expect(await readWith('')).toEqual({ files: {}, messages: closed })
      expect(await fs.readdir(directory)).toContain('closed')
      await fs.chown(directory, 4711, 4711)
      await fs.chmod(directory, 0o700)
      expect(await readWith('')).toEqual({ files: {}, messages: closed })
    })
  })
})
