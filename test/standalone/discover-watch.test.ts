import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'
import { isAlive, processesOf } from './support/processes.js'

const program = path.join(root, 'cli/dist/akri.js')
const sdk = JSON.stringify(pathToFileURL(path.join(root, 'sdk/dist/index.js')).href)

/** Blocks the event loop without the load of an endless loop. */
const BLOCK_20_MS = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)'

/** A handler that lists one device. @param imports further statements */
const handler = (id: string, imports = '') => `${imports}
  import { defineDiscoveryHandler } from ${sdk}
  export default defineDiscoveryHandler({
    name: 'mine',
    shared: true,
    details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
    async *discover({ signal }) { yield [{ id: ${id} }] },
  })`

describe('akri discover FILE --watch', () => {
  const akri = AkriProgram.ofEachTest()
  let child: ChildProcess | undefined
  let output: string
  let errors: string

  beforeEach(async () => {
    output = ''
    errors = ''
  })

  afterEach(async () => {
    child?.kill('SIGKILL')
  })

  function start(...args: readonly string[]): void {
    const started = spawn(process.execPath, [program, 'discover', '--watch', ...args], {
      cwd: akri.directory,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child = started
    started.stdout.on('data', (chunk) => {
      output += String(chunk)
    })
    started.stderr.on('data', (chunk) => {
      errors += String(chunk)
    })
  }

  const lists = () =>
    output
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  /** A slow machine can see one change as two: only the last list counts. */
  const listed = (id: string) =>
    eventually(() => expect(lists().at(-1)).toMatchObject({ devices: [{ id }] }))
  const ended = () => new Promise((resolve) => child?.once('exit', resolve))

  it('starts again when the file or an imported file changes, with the code of then', async () => {
    await mkdir(path.join(akri.directory, 'lib'))
    await akri.write('lib/id.mjs', "export const id = 'a'")
    await akri.write('lib/suffix.cjs', "module.exports = '1'")
    await akri.write('not-imported.mjs', '')
    const imports =
      "import { id } from './lib/id.mjs'; import suffix from './lib/suffix.cjs'; " +
      "console.log('loaded')"
    await akri.write('h.mjs', handler('id + suffix', imports))
    start('h.mjs', '--json')
    await listed('a1')
    // What it prints is not among the lists.
    await eventually(() => expect(errors).toContain('loaded'))
    await akri.write('not-imported.mjs', 'other')
    await akri.write('lib/id.mjs', "export const id = 'b'")
    await listed('b1')
    await akri.write('lib/suffix.cjs', "module.exports = '2'")
    await listed('b2')
    // As editors do.
    await akri.write('other.tmp', handler("'c'", imports))
    await rename(path.join(akri.directory, 'other.tmp'), path.join(akri.directory, 'h.mjs'))
    await listed('c')
    for (const file of ['id.mjs', 'suffix.cjs', 'h.mjs'])
      expect(errors).toContain(`akri: ${file} changed: the handler starts again`)
    expect(errors).not.toContain('not-imported')
  })

  it('names a handler that blocks the event loop, and its line', async () => {
    const blocking = handler("'a'").replace('yield', `\nwhile (true) ${BLOCK_20_MS}\nyield`)
    await akri.write('h.mjs', blocking)
    start('h.mjs')
    await eventually(
      () =>
        expect(errors).toMatch(
          / error event loop blocked by a handler handler="mine" place=".*h\.mjs:8"/,
        ),
      120_000,
    )
    await akri.write('h.mjs', handler("'b'"))
    await eventually(() => expect(output).toMatch(/^b$/m))
  })

  it('shows a failure of a new version, and goes on with the next', async () => {
    await akri.write('h.mjs', handler("'a'"))
    start('h.mjs', '--json')
    await listed('a')
    for (const [text, failure] of [
      ['export default {', /^akri: .*h\.mjs cannot be loaded: /],
      [handler('undefined.x'), /^akri: handler mine failed: /],
      ['process.exit(3)', /^akri: the process of the handler ended with code 3$/],
      ["import './lib/missing.mjs'", /missing\.mjs/],
    ] as const) {
      await akri.write('h.mjs', text)
      await eventually(() =>
        expect(lists().at(-1)).toMatchObject({ error: expect.stringMatching(failure) }),
      )
    }
    await mkdir(path.join(akri.directory, 'lib'))
    await akri.write('lib/missing.mjs', '')
    await eventually(() =>
      expect(lists().at(-1)).toMatchObject({
        error: expect.stringContaining('does not export a handler'),
      }),
    )
    await akri.write('h.mjs', handler("'b'"))
    await listed('b')
    expect(errors).toContain('akri: waiting for a change of h.mjs, or of a file that it imports')
  })

  it('starts again when the details change, and when a file that was away is back', async () => {
    const typed = handler('details').replace('{ signal }', '{ details }')
    await akri.write('h.mjs', typed)
    await akri.write('details', 'a')
    start('./h.mjs', '--json', '--details', 'details')
    await listed('a')
    await akri.write('details', 'b')
    await listed('b')
    await rm(path.join(akri.directory, 'h.mjs'))
    await eventually(() =>
      expect(lists().at(-1)).toMatchObject({ error: expect.stringContaining('there is no /') }),
    )
    await akri.write('h.mjs', typed)
    await listed('b')
  })

  it.each(['SIGINT', 'SIGKILL'] as const)(
    'leaves no process of a handler that blocks after %s',
    async (signal) => {
      await akri.write(
        'h.mjs',
        handler("'a'").replace(
          "yield [{ id: 'a' }]",
          `yield [{ id: 'a' }]; while (true) ${BLOCK_20_MS}`,
        ),
      )
      start('h.mjs', '--json')
      await listed('a')
      const processes = processesOf(child?.pid ?? 0)
      expect(processes).toHaveLength(2)
      const end = ended()
      child?.kill(signal)
      expect(await end).toBe(signal === 'SIGINT' ? 0 : null)
      await eventually(() => expect(processes.filter(isAlive)).toEqual([]))
    },
  )
})
