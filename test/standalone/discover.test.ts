import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { AkriProgram, root } from './support/akri-program.js'

const NULL = 'udevRules: [\'KERNEL=="null"\']'
const NEAR = 'SUBSYSTEM=="mem", ATTR{dev}=="1:99"'

/** For a handler that tells nothing. */
const NO_REASON =
  'the handler gives no reason: check the details, and that this machine reaches the devices; ' +
  '--log-level debug may show more'

const program = path.join(root, 'cli/dist/akri.js')

/** Runs the program with a reader that closes the output after the first chunk. */
async function cutShort(args: readonly string[]) {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  let errors = ''
  child.stdout.once('data', (chunk) => {
    output += String(chunk)
    child.stdout.destroy()
  })
  child.stderr.on('data', (chunk) => {
    errors += String(chunk)
  })
  const [status] = await once(child, 'close')
  return { output, errors, status }
}

describe('akri discover', () => {
  let akri: AkriProgram

  beforeEach(async () => {
    akri = await AkriProgram.create()
  })

  afterEach(() => akri.dispose())

  it('prints the devices of a handler as a table', () => {
    const { stdout, stderr, status } = akri.run(['discover', 'udev', '--details-text', NULL])
    expect(stdout).toMatch(
      new RegExp(
        '^ID +PROPERTIES +NODES\n' +
          // A machine without events has a remark, too.
          '/devices/virtual/mem/null +UDEV_DEVPATH=/devices/virtual/mem/null ' +
          'UDEV_DEVNODE=/dev/null +/dev/null:rwm\n(\n|$)',
      ),
    )
    expect([stderr, status]).toEqual(['', 0])
    expect(akri.run(['discover', 'udev', '--details-text', 'udevRules: []']).stdout).toMatch(
      /^nothing found\n\nthere are no udev rules\n/,
    )
    const closest = ['discover', 'udev', '--details-text', `udevRules: ['${NEAR}']`]
    expect(akri.run(closest).stdout).toMatch(
      /^nothing found\n\n.* not offered: .*\n\/devices\/virtual\/mem\/.* ATTR\{dev\} is "1:/s,
    )
  })

  it('prints each list as a line of JSON', () => {
    const [list, ...rest] = akri
      .run(['discover', 'udev', '--details-text', NULL, '--json'])
      .stdout.split('\n')
    expect(JSON.parse(list ?? '')).toMatchObject({
      devices: [
        {
          id: '/devices/virtual/mem/null',
          deviceSpecs: [{ hostPath: '/dev/null', permissions: 'rwm' }],
        },
      ],
      leftOut: [],
    })
    expect(rest).toEqual([''])
  })

  it('reads details from a file or from standard input, as YAML or JSON', async () => {
    const yaml = await akri.write('details.yaml', NULL)
    const json = await akri.write('details.json', JSON.stringify({ udevRules: ['KERNEL=="null"'] }))
    for (const file of [yaml, json])
      expect(akri.run(['discover', 'udev', '--details', file]).stdout).toContain(
        '/devices/virtual/mem/null',
      )
    expect(akri.run(['discover', 'udev', '--details', '-'], NULL).stdout).toContain(
      '/devices/virtual/mem/null',
    )
  })

  it('ends without an error if the reader closes the output, also with --watch', async () => {
    // More data than a pipe holds.
    const descriptions = Array.from(
      { length: 5000 },
      (_, index) => `device-${index}-${'x'.repeat(40)}`,
    )
    const file = await akri.write('details.json', JSON.stringify({ descriptions }))
    for (const form of ['--json', '--once']) {
      const { output, status, errors } = await cutShort([
        'discover',
        'debugEcho',
        '--details',
        file,
        form,
      ])
      expect(output).not.toBe('')
      expect([status, errors]).toEqual([0, ''])
    }
    const watching = await cutShort(['discover', 'debugEcho', '--details', file, '--watch'])
    expect([watching.status, watching.errors]).toEqual([0, ''])
  })

  it.each([
    ['discover --watch', ['discover', 'udev', '--details-text', NULL, '--watch']],
    ['discover', ['discover', 'udev', '--details-text', NULL]],
    ['validate', ['validate', 'run.yaml']],
    ['completion', ['completion', 'bash']],
    ['--help', ['--help']],
    ['run', ['run', '-f', 'run.yaml', '--plain', '--state-dir', 's']],
  ])('reports an output of %s that cannot be written, and fails', async (_, args) => {
    await akri.write(
      'run.yaml',
      `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: echo }
spec: { discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [a]' } }`,
    )
    await using full = await open('/dev/full', 'w')
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], {
      cwd: akri.directory,
      encoding: 'utf8',
      stdio: ['ignore', full.fd, 'pipe'],
    })
    expect(stderr).toMatch(/^akri: standard output cannot be written: .*ENOSPC.*\n$/)
    expect(status).toBe(1)
  })

  it('takes the file of a module', async () => {
    const directory = await akri.writeHandler(`yield [{ id: 'it' }]`)
    for (const file of [path.join(directory, 'mine.mjs'), 'mine/mine.mjs', './mine/mine.mjs'])
      expect(akri.run(['discover', file]).stdout).toMatch(/^ID .*\nit *\n$/)
    await akri.write('mine/broken.mjs', 'export default {')
    const { stderr, status } = akri.run(['discover', './mine/broken.mjs'])
    expect(stderr).toMatch(
      /^akri: \/.*\/mine\/broken\.mjs cannot be loaded: .*\/mine\/broken\.mjs:1: Unexpected end/,
    )
    expect(status).toBe(1)
  })

  it('takes TypeScript where Node.js removes types, and else names what is needed', async () => {
    const directory = await akri.writeHandler(`yield [{ id: 'it' }]`)
    const file = path.join(directory, 'mine.mjs')
    const text = await readFile(file, 'utf8')
    await akri.write('mine/typed.mts', `const unused: string = 'typed'\n${text}`)
    const { stdout, stderr } = akri.run(['discover', './mine/typed.mts'])
    if ('typescript' in process.features && process.features.typescript)
      expect(stdout).toMatch(/^ID .*\nit *\n$/)
    else
      expect(stderr).toMatch(
        /typed\.mts cannot be loaded: Node\.js 2.* does not run TypeScript .*; use Node\.js 22\.18/,
      )
  })

  it('waits after an empty first list, and tells how to wait longer', async () => {
    const handler = await akri.writeHandler(`
      yield []
      await new Promise((resolve) => setTimeout(resolve, 100))
      yield [{ id: 'late' }]`)
    const waited = akri.run(['discover', handler])
    expect(waited.stdout).toMatch(/^ID .*\nlate *\n$/)
    expect(waited.stderr).toBe(
      'akri: nothing found so far; waiting 5 s for another list ' +
        '(--watch goes on, --once does not wait)\n',
    )
    const once = akri.run(['discover', handler, '--once'])
    expect([once.stdout, once.stderr]).toEqual([`nothing found\n\n${NO_REASON}\n`, ''])
  })

  it('shows an empty list if no other follows', async () => {
    const handler = await akri.writeHandler('yield []')
    const { stdout, status } = akri.run(['discover', handler, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ devices: [], leftOut: [], remarks: [NO_REASON] })
    expect(status).toBe(0)
  })

  it.each([
    ['a promise', '', ['--once']],
    ['events', "(await import('node:dgram')).createSocket('udp4').bind(0, '127.0.0.1')", []],
  ])('tells that no list has come, and goes on, if a handler waits for %s', async (...wait) => {
    const [, code, more] = wait
    const handler = await akri.writeHandler(`${code}; await new Promise(() => {})`)
    const child = spawn(process.execPath, [program, 'discover', handler, ...more])
    const exited = once(child, 'exit')
    const [chunk] = await once(child.stderr, 'data')
    expect(String(chunk)).toMatch(/^akri: no list yet: .* \(--watch goes on\)\n$/)
    child.kill('SIGINT')
    expect(await exited).toEqual([0, null])
  })

  it('passes on properties from the command line and from files, masked by name', async () => {
    const handler = await akri.writeHandler(`
      const { properties } = context
      const [PASSWORD, USER_NAME] = ['password', 'user'].map((name) => properties.text(name))
      yield [{ id: 'it', properties: { TEXT: PASSWORD, PASSWORD, USER_NAME } }]`)
    const file = await akri.write('password', 's3cret=@x')
    const given = ['--property', 'user=anna', '--property', `password=@${file}`]
    expect(akri.run(['discover', handler, ...given]).stdout).toMatch(
      /^it +TEXT=s3cret=@x PASSWORD=\*\*\* USER_NAME=anna/m,
    )
    const { stdout } = akri.run(['discover', handler, ...given, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ devices: [{ properties: { PASSWORD: '***' } }] })
  })

  it('logs what a handler prints, and its output has nothing but lists', async () => {
    const handler = await akri.writeHandler(`
      console.log('found %d', 3)
      console.error('an odd answer')
      process.stdout.write('half a line')
      yield [{ id: 'it' }]`)
    const { stdout, stderr, status } = akri.run(['discover', handler, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ devices: [{ id: 'it' }] })
    expect(stderr.replace(/^[\d:]{8} /gm, '')).toBe(
      'warn  text on standard output text="found 3"\n' +
        'warn  text on standard error text="an odd answer"\n' +
        'warn  text on standard output text="half a line"\n',
    )
    expect(status).toBe(0)
  })

  it('prints a failure as text where a handler has printed before', async () => {
    const handler = await akri.writeHandler(`console.log('found'); throw new Error('no bus')`)
    const { stdout, stderr, status } = akri.run(['discover', handler])
    expect([stdout, status]).toEqual(['', 1])
    expect(stderr).toMatch(/ text="?found"?\nakri: handler mine failed: no bus\n +at .*mine\.mjs:/)
  })

  it('tells why devices are not offered, as a table and as JSON', async () => {
    const handler = await akri.writeHandler(`
      context.leaveOut('10.0.0.1', 'HTTP status 401')
      context.leaveOut('10.0.0.2', 'too far away', 'a detail with \\u001b[31m')
      context.leaveOut('10.0.0.3', 'HTTP status 401')
      yield []`)
    expect(akri.run(['discover', handler]).stdout).toMatch(
      new RegExp(
        '^nothing found\n\n3 not offered: 2 x HTTP status 401, 1 x too far away\n' +
          'ID +REASON +DETAIL\n10\\.0\\.0\\.1 +HTTP status 401\n' +
          '10\\.0\\.0\\.2 +too far away +a detail with \ufffd\\[31m\n' +
          '10\\.0\\.0\\.3 +HTTP status 401\n$',
      ),
    )
    const { stdout } = akri.run(['discover', handler, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({
      devices: [],
      leftOut: [
        { id: '10.0.0.1', reason: 'HTTP status 401' },
        { id: '10.0.0.2', reason: 'too far away', detail: 'a detail with \ufffd[31m' },
        { id: '10.0.0.3', reason: 'HTTP status 401' },
      ],
    })
  })

  it.each([
    [['none-such'], 1, /none-such.*npm install none-such/],
    [['Udev', '--details-text', 'x'], 2, /there is no handler Udev; did you mean udev\?/],
    [
      ['./none-such'],
      1,
      /there is no \/.*\/none-such; give the file of a module, or the directory of a package/,
    ],
    [['udev', '--details-text', 'udevRules: [RUN+="x"]'], 1, /udevRules\[0\].*line 1, column 1/s],
    [['udev', '--details-text', 'udevRules: [', '--json'], 1, /discoveryDetails/],
    // What a handler quotes cannot control the terminal.
    [
      ['debugEcho', '--details-text', '{"\\u001b[2J\\u202ex": 1}'],
      1,
      /^akri: [^\p{Cc}\p{Bidi_C}]*\ufffd\[2J\ufffdx: there is no such field/u,
    ],
    [
      ['udev', '--details', 'none-such.yaml'],
      2,
      /--details none-such\.yaml cannot be read: .*ENOENT/,
    ],
    [['udev', '--details', 'a', '--details-text', 'b'], 2, /--details.*--details-text/],
    [['udev', '--property', '1=x'], 2, /--property "1=x" is not NAME=VALUE or NAME=@FILE/],
    [['udev', '--property', 'a=@none-such'], 2, /--property none-such cannot be read/],
    [
      ['udev', '--property', 'a=@-', '--property', 'b=@-'],
      2,
      /--property a=@- and --property b=@- both read standard input/,
    ],
    [
      ['./mine', '--watch', '--details', '-', '--property', 'a=@-'],
      2,
      /--details - and --property a=@- both read standard input/,
    ],
    [['udev', '--once', '--watch'], 2, /--once.*--watch|--watch.*--once/],
    [['udev', '--detail', 'x'], 2, /unknown option '--detail'.*--details/s],
    [[], 2, /missing required argument 'handler'/],
  ])('reports the problem of %j', (args, status, message) => {
    const result = akri.run(['discover', ...args])
    expect(result.stderr).toMatch(message)
    expect([result.status, result.stdout]).toEqual([status, ''])
  })
})
