import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
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
  const akri = AkriProgram.ofEachTest()

  it('prints the devices of a handler as a table, with details of a file', async () => {
    const file = await akri.write('details.yaml', NULL)
    const { stdout, stderr, status } = akri.run(['discover', 'udev', '--details', file])
    expect(stdout).toMatch(
      new RegExp(
        '^ID +PROPERTIES +NODES\n' +
          // A machine without events has a remark, too.
          '/devices/virtual/mem/null +UDEV_DEVPATH=/devices/virtual/mem/null ' +
          'UDEV_DEVNODE=/dev/null +/dev/null:rwm\n(\n|$)',
      ),
    )
    expect([stderr, status]).toEqual(['', 0])
  })

  it('prints each list as a line of JSON, with details from standard input', () => {
    const [list, ...rest] = akri
      .run(['discover', 'udev', '--details', '-', '--json'], NULL)
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

  it('ends without an error if the reader closes the output, also with --watch', async () => {
    // More data than a pipe holds.
    const descriptions = Array.from(
      { length: 5000 },
      (_, index) => `device-${index}-${'x'.repeat(40)}`,
    )
    const file = await akri.write('details.json', JSON.stringify({ descriptions }))
    const command = ['discover', 'debugEcho', '--details', file]
    const { output, status, errors } = await cutShort([...command, '--json'])
    expect(output).not.toBe('')
    expect([status, errors]).toEqual([0, ''])
    const watching = await cutShort([...command, '--watch'])
    expect([watching.status, watching.errors]).toEqual([0, ''])
  })

  it.each([
    ['discover', ['discover', 'udev', '--details-text', NULL]],
    ['completion', ['completion', 'bash']],
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

  it('goes on while a handler waits for a promise alone', async () => {
    // Node.js would end a process that has nothing else to wait for.
    const handler = await akri.writeHandler(`
      setTimeout(() => console.log('is alive'), 200).unref()
      await new Promise(() => {})`)
    const child = spawn(process.execPath, [program, 'discover', handler])
    const exited = once(child, 'exit')
    const [chunk] = await once(child.stderr, 'data')
    expect(String(chunk)).toContain('is alive')
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
  })

  it.each([
    // What a handler quotes cannot control the terminal.
    [
      ['debugEcho', '--details-text', '{"\\u001b[2J\\u202ex": 1}'],
      1,
      /^akri: [^\p{Cc}\p{Bidi_C}]*\ufffd\[2J\ufffdx: there is no such field/u,
    ],
    [['udev', '--once', '--watch'], 2, /--once.*--watch|--watch.*--once/],
  ])('reports the problem of %j', (args, status, message) => {
    const result = akri.run(['discover', ...args])
    expect(result.stderr).toMatch(message)
    expect([result.status, result.stdout]).toEqual([status, ''])
  })
})
