import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import * as fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { BROKER_INFO } from '../limits.js'
import { runScript } from '../testing/run-script.js'
import { Workload } from './workload.js'

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

const { files: mostFiles, fileBytes, workloadBytes, directoryEntries } = BROKER_INFO
const SECRET = 'the secret of another program'
const TOO_MUCH = Buffer.alloc(BROKER_INFO.diskBytes + 4096, 'x')
const isRoot = process.getuid?.() === 0

let outside: string
let secret: string
let directory: string
/** Of the last {@link look}. */
let mustEnd: boolean

beforeEach(async () => {
  outside = await fs.mkdtemp(path.join(os.tmpdir(), 'akri-read-'))
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

async function look(where = directory) {
  const messages: string[] = []
  const onRefusal = (message: string) => messages.push(message)
  const workload = new Workload(where, false, { onChange() {}, onRefusal })
  await workload.read()
  workload.close()
  mustEnd = workload.mustEnd
  return { files: workload.files, messages }
}

async function read(where?: string) {
  const { files, messages } = await look(where)
  return { files: Object.fromEntries(files), messages }
}

/** What an agent with these capabilities reads, as root; without them if this is not root. */
function readWith(capabilities: string): Promise<unknown> {
  const script = `
    import { Workload } from './workload.js'
    const messages = []
    const onRefusal = (message) => messages.push(message)
    const workload = new Workload(${JSON.stringify(directory)}, false, { onChange() {}, onRefusal })
    await workload.read()
    const files = Object.fromEntries(workload.files)
    console.log(JSON.stringify({ files, messages }))`
  const limited = ['setpriv', '--inh-caps=-all', `--bounding-set=-all${capabilities}`]
  const place = { resolveDir: import.meta.dirname, directory: outside }
  return runScript(isRoot ? limited : [], script, place)
}

/** Leaves a socket without a process. */
const LEFT_SOCKET = ['-e', `require('node:net').createServer().listen('x', () => process.exit())`]
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
    ['a link to a hidden file', () => symlinkSync('.y', at('x')), /"x" is not a regular file/],
    ['a pipe', () => execFileSync('mkfifo', [at('x')]), /"x" is not a regular file/],
    ['another name of a file elsewhere', () => linkSync(secret, at('x')), /"x" .* hard link/],
    ['a large file', () => write('x', 'x'.repeat(fileBytes + 1)), /"x" has more than 4096 bytes/],
    ['a file of holes', () => execFileSync('truncate', ['-s', '1T', at('x')]), /more than 4096/],
    ['what is not UTF-8', () => write('x', Uint8Array.of(0x66, 0xff)), /"x" is not text in UTF-8/],
    ['half of a character', () => write('x', Uint8Array.of(0xc3)), /"x" is not text in UTF-8/],
    ['a name with a space', () => write('a b', 'x'), /"a b" is no name; write letters/],
    ['a long name that is not plain', () => write('ä'.repeat(100), 'x'), /"ä{100}" is no name/],
    ['the name of a prototype', () => write('__proto__', 'x'), /"__proto__" is no name/],
    ['a name like an option', () => write('-rf', 'x'), /"-rf" is no name/],
    [
      'a socket',
      () => execFileSync(process.execPath, LEFT_SOCKET, { cwd: directory }),
      /"x" is not a regular file/,
    ],
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
    [
      'entries',
      [['good', 'x'], ...numbered(directoryEntries).map<[string, string]>((f) => [`.${f}`, ''])],
      [],
      /more than 200 entries; nothing is read/,
    ],
  ])('R69 are bounded in their number of %s', async (_what, contents, wanted, message) => {
    for (const [name, content] of contents) await write(name, content)
    const { files, messages } = await read()
    expect(Object.keys(files)).toEqual(wanted)
    expect(messages).toEqual([expect.stringMatching(message)])
  })

  it.each([
    [
      'no content from outside while names change',
      `for (let round = 0; ; round++) {
        if (round % 2) fs.symlinkSync('../secret', 'next')
        else fs.writeFileSync('next', 'mine')
        fs.renameSync('next', 'f' + (round % 3))
      }`,
      /^(mine)?$/,
    ],
    [
      'no more than the bound while a file grows',
      `const file = fs.openSync('f2', 'w')
      for (;;) {
        fs.ftruncateSync(file, 0)
        for (let part = 0; part < 8; part++) fs.writeSync(file, 'x'.repeat(1000), part * 1000)
      }`,
      /^[x\ufffd]{0,4096}$/,
    ],
  ])('R69 have %s', async (_what, script, content) => {
    const args = ['-e', `const fs = require('node:fs'); ${script}`]
    const writer = spawn(process.execPath, args, { cwd: directory, stdio: 'inherit' })
    const ended = once(writer, 'exit')
    let seen = 0
    try {
      await eventually(() => expect(existsSync(at('f2'))).toBe(true))
      for (let round = 0; round < 150; round++) {
        const { files } = await look()
        for (const text of files.values()) expect(text).toMatch(content)
        seen += files.size
      }
      expect(writer.exitCode).toBeNull()
    } finally {
      writer.kill('SIGKILL')
      await ended
    }
    expect(seen).toBeGreaterThan(0)
  })

  it('R69 stay within their bounds and the directory, whatever it has', async () => {
    const odd = ['a', 'constructor', '__proto__', '.hidden', '-', '_', '..a', 'a\nb', '\u{1F600}']
    const text = fc.string({ minLength: 1, maxLength: 60, unit: 'binary' })
    const name = fc.oneof(
      fc.constantFrom(...odd),
      text.filter((name) => !/[/\0]/.test(name) && !['.', '..'].includes(name)),
    )
    const content = fc.oneof(
      fc.string({ maxLength: 50, unit: 'binary' }),
      fc.uint8Array({ maxLength: 50 }),
      fc.integer({ min: 0, max: 2 * fileBytes }).map((length) => 'x'.repeat(length)),
    )
    const targets = fc.constantFrom('../secret', '/etc/passwd', '.', 'a', '/dev/zero')
    // A link to it costs no process.
    const pipe = path.join(outside, 'pipe')
    execFileSync('mkfifo', ['-m', '666', pipe])
    const make = fc.oneof(
      fc.tuple(content, fc.constantFrom(0o644, 0o000)).map(([content, mode]) => (file: string) => {
        writeFileSync(file, content, { flag: 'wx' })
        chmodSync(file, mode)
      }),
      targets.map((target) => (file: string) => symlinkSync(target, file)),
      fc.constant((file: string) => mkdirSync(file)),
      fc.constantFrom(secret, pipe).map((target) => (file: string) => linkSync(target, file)),
    )
    const entries = fc.array(fc.tuple(name, make), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(entries, async (entries) => {
        directory = await fs.mkdtemp(path.join(outside, 'any-'))
        for (const [name, make] of entries) {
          try {
            make(at(name))
          } catch {
            // The name is taken, or none.
          }
        }
        const { files, messages } = await look()
        expect(files.size).toBeLessThanOrEqual(mostFiles)
        for (const [name, content] of files) {
          expect(name).toMatch(/^[A-Za-z0-9][-._A-Za-z0-9]{0,252}$/)
          expect(Buffer.byteLength(content)).toBeLessThanOrEqual(fileBytes * 3)
          expect(content).not.toMatch(/the secret|root:/)
        }
        const all = [...files.values()].join('')
        expect(Buffer.byteLength(all)).toBeLessThanOrEqual(workloadBytes)
        for (const message of messages) expect(message.length).toBeLessThan(400)
      }),
      { numRuns: 40 },
    )
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
    await look()
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
      await look()
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
    await look()
    expect(await fs.readdir(directory)).toEqual(['large'])
    expect((await fs.readFile(secret)).equals(TOO_MUCH)).toBe(true)
  })

  it('ends its workload after five looks in a row for hidden writes only', async () => {
    // Also after the clock of the machine was set back.
    for (const name of ['ahead', 'report', 'log']) await write(name, '1')
    await using hidden = await fs.open(at('log'), 'a')
    await fs.unlink(at('log'))
    const onChange = vi.fn()
    const workload = new Workload(directory, false, { onChange, onRefusal() {} })
    await workload.read()
    const lookAfter = async (change: () => Promise<unknown>) => {
      onChange.mockClear()
      await change()
      await eventually(() => expect(onChange).toHaveBeenCalled())
      await workload.read()
      return workload.mustEnd
    }
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
