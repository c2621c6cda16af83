import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, open } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { AkriProgram, root } from './support/akri-program.js'

const NULL = 'udevRules: [\'KERNEL=="null"\']'

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
          '/devices/virtual/mem/null +UDEV_DEVNODE=/dev/null +/dev/null:rwm\n$',
      ),
    )
    expect([stderr, status]).toEqual(['', 0])
    expect(akri.run(['discover', 'udev', '--details-text', 'udevRules: []']).stdout).toBe(
      'nothing found\n',
    )
  })

  it('prints each list as a line of JSON', () => {
    const [list, ...rest] = akri
      .run(['discover', 'udev', '--details-text', NULL, '--json'])
      .stdout.split('\n')
    expect(JSON.parse(list ?? '')).toMatchObject([
      {
        id: '/devices/virtual/mem/null',
        deviceSpecs: [{ hostPath: '/dev/null', permissions: 'rwm' }],
      },
    ])
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

  it('reports an output that cannot be written, and ends', async () => {
    await using full = await open('/dev/full', 'w')
    const { status, stderr } = spawnSync(
      process.execPath,
      [program, 'discover', 'udev', '--details-text', NULL, '--watch'],
      {
        encoding: 'utf8',
        stdio: ['ignore', full.fd, 'pipe'],
      },
    )
    expect(stderr).toMatch(/^akri: standard output cannot be written: .*ENOSPC.*\n$/)
    expect(status).toBe(1)
  })

  it('passes on properties from the command line and from files', async () => {
    await mkdir(path.join(akri.directory, 'secret'))
    const manifest = {
      name: 'secret',
      exports: './secret.mjs',
      akri: { contract: 1, handlers: [{ name: 'secret' }] },
    }
    await akri.write('secret/package.json', JSON.stringify(manifest))
    const sdk = pathToFileURL(path.join(root, 'sdk/dist/index.js')).href
    await akri.write(
      'secret/secret.mjs',
      `import { defineDiscoveryHandler } from ${JSON.stringify(sdk)}
      export default defineDiscoveryHandler({
        name: 'secret',
        shared: true,
        details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
        async *discover({ properties }) {
          const [PASSWORD, USER_NAME] = ['password', 'user'].map((name) => properties.text(name))
          yield [{ id: 'it', properties: { PASSWORD, USER_NAME } }]
        },
      })`,
    )
    const file = await akri.write('password', 's3cret=@x')
    const given = ['--property', 'user=anna', '--property', `password=@${file}`]
    expect(akri.run(['discover', './secret', ...given]).stdout).toMatch(
      /^it +PASSWORD=s3cret=@x USER_NAME=anna/m,
    )
  })

  it.each([
    [['none-such'], 1, /none-such.*npm install none-such/],
    [['Udev', '--details-text', 'x'], 2, /there is no handler Udev; did you mean udev\?/],
    [
      ['./none-such'],
      1,
      /there is no package\.json in \/.*\/none-such; give the directory of the package/,
    ],
    [['udev', '--details-text', 'udevRules: [RUN+="x"]'], 1, /udevRules\[0\].*line 1, column 1/s],
    [['udev', '--details-text', 'udevRules: [', '--json'], 1, /discoveryDetails/],
    // What a handler quotes cannot control the terminal.
    [
      ['debugEcho', '--details-text', '{"\\u001b[2J\\u202ex": 1}'],
      1,
      /^akri: [^\p{Cc}\p{Bidi_C}]*Unrecognized key: "\ufffd\[2J\ufffdx"/u,
    ],
    [
      ['udev', '--details', 'none-such.yaml'],
      2,
      /--details none-such\.yaml cannot be read: .*ENOENT/,
    ],
    [['udev', '--details', 'a', '--details-text', 'b'], 2, /--details.*--details-text/],
    [['udev', '--property', '1=x'], 2, /--property "1=x" is not NAME=VALUE or NAME=@FILE/],
    [['udev', '--property', 'a=@none-such'], 2, /--property none-such cannot be read/],
    [['udev', '--once', '--watch'], 2, /--once.*--watch|--watch.*--once/],
    [['udev', '--detail', 'x'], 2, /unknown option '--detail'.*--details/s],
    [[], 2, /missing required argument 'handler'/],
  ])('reports the problem of %j', (args, status, message) => {
    const result = akri.run(['discover', ...args])
    expect(result.stderr).toMatch(message)
    expect([result.status, result.stdout]).toEqual([status, ''])
  })
})
