import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, symlinkSync, writeFileSync } from 'node:fs'
import { chmod, link, mkdir, mkdtemp, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { build } from 'esbuild'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import {
  MAX_ENTRIES,
  MAX_FILE_BYTES,
  MAX_FILES,
  MAX_WORKLOAD_BYTES,
  readWorkload,
} from './read-workload.js'

const SECRET = 'the secret of somebody else'

/** Node has no leases of files. */
const noPython = spawnSync('python3', ['--version']).status !== 0

let outside: string
let directory: string

beforeEach(async () => {
  outside = await mkdtemp(path.join(os.tmpdir(), 'akri-read-'))
  directory = path.join(outside, 'own')
  await mkdir(directory)
  await writeFile(path.join(outside, 'secret'), SECRET)
})
afterEach(() => execFileSync('rm', ['-rf', outside]))

const at = (name: string) => path.join(directory, name)
const write = (name: string, content: string | Uint8Array) => writeFile(at(name), content)
async function end(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve))
  if (child.kill('SIGKILL')) await ended
}
async function read() {
  const { files, refused } = await readWorkload(directory)
  return { files: Object.fromEntries(files), reasons: refused.map(({ reason }) => reason).sort() }
}

describe('the directory of a workload', () => {
  it('R69 is read as names and contents', async () => {
    await write('firmware-version', '2.4.1\n')
    await write('Status.txt', 'grün')
    await write('empty', '')
    expect(await read()).toEqual({
      files: { 'firmware-version': '2.4.1\n', 'Status.txt': 'grün', empty: '' },
      reasons: [],
    })
  })

  it('R69 has contents without control characters; lines and tabs stay', async () => {
    await write('report', 'a\tb\r\nc\n\u001b[2J\u0000\u009b1m\u202egpj\u2028')
    expect(await read()).toEqual({
      files: { report: 'a\tb\nc\n\ufffd[2J\ufffd\ufffd1m\ufffdgpj\ufffd' },
      reasons: [],
    })
  })

  it('R69 stays in its bound if replaced characters take more bytes than before', async () => {
    for (const name of ['a', 'b']) await write(name, '\u0001'.repeat(MAX_FILE_BYTES))
    expect(await read()).toEqual({
      files: { a: '\ufffd'.repeat(MAX_FILE_BYTES) },
      reasons: ['total'],
    })
  })

  it('R69 is empty if it is gone, or is no directory any more', async () => {
    expect(await readWorkload(at('none'))).toEqual({ files: new Map(), refused: [] })
    await write('file', 'x')
    expect(await readWorkload(at('file'))).toEqual({ files: new Map(), refused: [] })
    await symlink(outside, at('link'))
    expect(await readWorkload(at('link'))).toEqual({ files: new Map(), refused: [] })
  })

  it('R69 skips names that start with a dot: a workload can rename complete files', async () => {
    await write('.firmware-version.tmp', '2.')
    expect(await read()).toEqual({ files: {}, reasons: [] })
  })

  it.each([
    ['a link', () => symlink(path.join(outside, 'secret'), at('x')), 'type'],
    [
      'a link to a file beside it',
      () => write('.y', 'y').then(() => symlink('.y', at('x'))),
      'type',
    ],
    ['a directory', () => mkdir(at('x')), 'type'],
    ['a pipe', async () => void execFileSync('mkfifo', [at('x')]), 'type'],
    ['another name of a file elsewhere', () => link(path.join(outside, 'secret'), at('x')), 'link'],
    ['a file that is too large', () => write('x', 'x'.repeat(MAX_FILE_BYTES + 1)), 'size'],
    [
      'a file of many gigabytes',
      () => write('x', '').then(() => truncate(at('x'), 2 ** 40)),
      'size',
    ],
    ['what is not UTF-8', () => write('x', Uint8Array.of(0x66, 0xff)), 'text'],
    ['half of a character', () => write('x', Uint8Array.of(0xc3)), 'text'],
    ['a name with a space', () => write('a b', 'x'), 'name'],
    [
      'a name of two hundred characters that are not plain',
      () => write('ä'.repeat(100), 'x'),
      'name',
    ],
    ['the name of what every object has', () => write('__proto__', 'x'), 'name'],
    ['a name that looks like an option', () => write('-rf', 'x'), 'name'],
  ])('R69 has no entry for %s, and says why', async (_what, make, reason) => {
    await make()
    await write('good', 'still here')
    expect(await read()).toEqual({ files: { good: 'still here' }, reasons: [reason] })
  })

  it('R69 has no entry for a socket', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(at('x'), resolve))
    expect(await read()).toEqual({ files: {}, reasons: ['type'] })
    await new Promise((resolve) => server.close(resolve))
  })

  it.skipIf(process.getuid?.() !== 0)(
    'R69 has no entry for a device, and does not open it (only root can make one)',
    async () => {
      execFileSync('mknod', [at('x'), 'c', '1', '5'])
      expect(await read()).toEqual({ files: {}, reasons: ['type'] })
    },
  )

  it.skipIf(noPython)(
    'R69 does not wait for a process that has a lease on a file (needs python3)',
    async () => {
      await write('x', 'kept')
      // A write lease (F_SETLEASE): another process that opens the file has to wait for its owner.
      const python =
        'import fcntl,os,sys,time;f=os.open(sys.argv[1],os.O_RDWR);' +
        'fcntl.fcntl(f,fcntl.F_SETLEASE,1);print("kept",flush=True);' +
        'import signal;signal.signal(signal.SIGIO,signal.SIG_IGN);time.sleep(60)'
      const keeper = spawn('python3', ['-c', python, at('x')], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      await new Promise((resolve) => keeper.stdout.once('data', resolve))
      try {
        expect(await read()).toEqual({ files: {}, reasons: ['access'] })
      } finally {
        keeper.kill('SIGKILL')
      }
    },
  )

  it('R69 yields files and bytes up to the bound, the first files by name', async () => {
    for (let index = 0; index < MAX_FILES + 5; index++)
      await write(`f${String(index).padStart(3, '0')}`, String(index))
    const { files, reasons } = await read()
    expect(Object.keys(files)).toEqual(
      Array.from({ length: MAX_FILES }, (_, index) => `f${String(index).padStart(3, '0')}`),
    )
    expect(reasons).toEqual(['count'])
  })

  it('R69 skips files beyond the bound of all bytes', async () => {
    const content = 'x'.repeat(MAX_FILE_BYTES)
    for (const name of ['a', 'b', 'c', 'd', 'e']) await write(name, content)
    await write('f', '')
    expect(4 * MAX_FILE_BYTES).toBe(MAX_WORKLOAD_BYTES)
    const { files, reasons } = await read()
    expect(Object.keys(files)).toEqual(['a', 'b', 'c', 'd', 'f'])
    expect(reasons).toEqual(['total'])
  })

  it('R69 is not read at all if it has too many entries', async () => {
    for (let index = 0; index <= MAX_ENTRIES; index++) await write(`.f${index}`, '')
    await write('good', 'x')
    expect(await read()).toEqual({ files: {}, reasons: ['entries'] })
  })

  it('R69 reports a refusal for a file that only its owner may read', async () => {
    await write('x', 'x')
    await chmod(at('x'), 0o000)
    // As the agent runs in a container: root, and without any capability.
    const module = path.join(import.meta.dirname, 'read-workload.ts')
    const script = `import { readWorkload } from ${JSON.stringify(module)}
      const { files, refused } = await readWorkload(${JSON.stringify(directory)})
      console.log(JSON.stringify([[...files], refused]))`
    const built = path.join(outside, 'read.mjs')
    await build({
      stdin: { contents: script, resolveDir: outside },
      outfile: built,
      bundle: true,
      platform: 'node',
      format: 'esm',
      conditions: ['akri-source'],
    })
    await chmod(outside, 0o755)
    const drop =
      process.getuid?.() === 0
        ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
        : []
    const [file = '', ...args] = [...drop, process.execPath, built]
    const message = '"x" cannot be read by the agent; let everybody read it'
    expect(JSON.parse(execFileSync(file, args, { encoding: 'utf8' }))).toEqual([
      [],
      [{ reason: 'access', message }],
    ])
  })

  it('R69 never yields content from outside, and never fails, while names change', async () => {
    const script = `const fs = require('fs')
for (let round = 0; ; round++) {
  if (round % 2) fs.symlinkSync(${JSON.stringify(path.join(outside, 'secret'))}, 'next')
  else fs.writeFileSync('next', 'mine')
  fs.renameSync('next', 'f' + (round % 3))
}`
    const churning = spawn(process.execPath, ['-e', script], { cwd: directory, stdio: 'inherit' })
    try {
      await eventually(() => expect(existsSync(at('f2'))).toBe(true))
      let seen = 0
      for (let round = 0; round < 150; round++) {
        const { files } = await readWorkload(directory)
        for (const content of files.values()) expect(['mine', '']).toContain(content)
        seen += files.size
      }
      expect(seen).toBeGreaterThan(0)
      expect(churning.exitCode).toBeNull()
    } finally {
      await end(churning)
    }
  })

  it('R69 stays within its bounds and its directory, whatever it has', async () => {
    const name = fc.oneof(
      fc.constantFrom(
        'a',
        'b',
        '__proto__',
        'constructor',
        '.hidden',
        '-',
        '_',
        '..a',
        'a\nb',
        '\u{1F600}',
        'CON',
      ),
      fc
        .string({ minLength: 1, maxLength: 60, unit: 'binary' })
        .filter((text) => !/[/\0]/.test(text) && text !== '.' && text !== '..'),
    )
    const content = fc.oneof(
      fc.string({ maxLength: 50, unit: 'binary' }),
      fc.uint8Array({ maxLength: 50 }),
      fc.integer({ min: 0, max: 2 * MAX_FILE_BYTES }).map((length) => 'x'.repeat(length)),
    )
    const entry = fc.oneof(
      fc.record({
        make: fc.constant('file' as const),
        name,
        content,
        mode: fc.constantFrom(0o644, 0o000),
      }),
      fc.record({
        make: fc.constant('link' as const),
        name,
        to: fc.constantFrom('../secret', '/etc/passwd', '.', 'a', '/dev/zero'),
      }),
      fc.record({
        make: fc.constantFrom('directory' as const, 'hard link' as const, 'pipe' as const),
        name,
      }),
    )
    // A link to it costs no process.
    const pipe = path.join(outside, 'pipe')
    execFileSync('mkfifo', ['-m', '666', pipe])
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 30 }), async (entries) => {
        directory = path.join(outside, randomBytes(4).toString('hex'))
        await mkdir(directory)
        for (const entry of entries) {
          try {
            if (entry.make === 'file') {
              writeFileSync(at(entry.name), entry.content, { flag: 'wx' })
              chmodSync(at(entry.name), entry.mode)
            } else if (entry.make === 'link') symlinkSync(entry.to, at(entry.name))
            else if (entry.make === 'directory') await mkdir(at(entry.name))
            else if (entry.make === 'hard link')
              await link(path.join(outside, 'secret'), at(entry.name))
            else await link(pipe, at(entry.name))
          } catch {
            // The name is taken, or none.
          }
        }
        const { files, refused } = await readWorkload(directory)
        expect(files.size).toBeLessThanOrEqual(MAX_FILES)
        let bytes = 0
        for (const [key, value] of files) {
          expect(key).toMatch(/^[A-Za-z0-9][-._A-Za-z0-9]{0,252}$/)
          expect(Buffer.byteLength(value)).toBeLessThanOrEqual(MAX_FILE_BYTES)
          expect(value).not.toContain(SECRET)
          expect(value).not.toContain('root:')
          bytes += Buffer.byteLength(value)
        }
        expect(bytes).toBeLessThanOrEqual(MAX_WORKLOAD_BYTES)
        expect(new Set(refused.map(({ reason }) => reason)).size).toBe(refused.length)
        for (const { message } of refused) expect(message.length).toBeLessThan(400)
      }),
      { numRuns: 40 },
    )
  })

  it('R69 reads a file only up to the bound, although the file grows meanwhile', async () => {
    const script = `const fs = require('fs')
const file = fs.openSync('x', 'w')
for (;;) {
  fs.ftruncateSync(file, 0)
  for (let part = 0; part < 8; part++) fs.writeSync(file, 'x'.repeat(1000), part * 1000)
}`
    const growing = spawn(process.execPath, ['-e', script], { cwd: directory, stdio: 'inherit' })
    await eventually(() => expect(existsSync(at('x'))).toBe(true))
    try {
      for (let round = 0; round < 150; round++) {
        const { files } = await readWorkload(directory)
        expect(files.get('x')?.length ?? 0).toBeLessThanOrEqual(MAX_FILE_BYTES)
      }
      expect(growing.exitCode).toBeNull()
    } finally {
      await end(growing)
    }
  })
})
