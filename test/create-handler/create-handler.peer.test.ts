import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { missingForTerminals, Terminal } from '../standalone/support/terminal.js'
import { eventually } from '../support/eventually.js'
import { missingPackages, root } from './support/packages.js'

const program = path.join(root, 'create-handler/dist/create-handler.js')
const lacks = missingPackages()
const lacksTerminal = missingForTerminals()
const unless = (missing: string | undefined) => (missing === undefined ? '' : ` (needs ${missing})`)

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-create-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

function create(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd: directory,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return { status, stdout, stderr }
}

const files = async () => (await readdir(directory, { recursive: true })).sort()

describe.skipIf(lacks !== undefined)(`create-handler${unless(lacks)}`, () => {
  it('writes a project from a clone, whose packages it packs', async () => {
    const { status, stdout, stderr } = create('my-sensor')
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toContain('my-sensor is in my-sensor, in javascript')
    const packages = (await readdir(path.join(directory, 'my-sensor/vendor'))).sort()
    expect(packages).toContain('akrijs-sdk-0.1.0.tgz')
    const project = path.join(directory, 'my-sensor')
    const lock = JSON.parse(await readFile(path.join(project, 'package-lock.json'), 'utf8'))
    expect(lock.packages['node_modules/@akrijs/sdk'].resolved).toBe(
      'file:vendor/akrijs-sdk-0.1.0.tgz',
    )
    // The directory of the tarballs is gone.
    expect(await readdir(directory)).toEqual(['my-sensor'])
  })
})

describe.skipIf(lacks !== undefined || lacksTerminal !== undefined)(
  `create-handler on a terminal${unless(lacks ?? lacksTerminal)}`,
  () => {
    let terminal: Terminal

    afterEach(async () => {
      terminal.close()
      await terminal.ended
    })

    function open(...args: readonly string[]) {
      const script = 'cd "$0" && exec "$@"'
      const command = ['/bin/sh', '-c', script, directory, process.execPath, program, ...args]
      terminal = new Terminal({ columns: 100, rows: 24 }, command)
    }
    const shows = (text: string | RegExp) =>
      eventually(() => expect(terminal.screen.lines.join('\n')).toMatch(text))

    it('asks for what the arguments lack, again after an answer that makes no sense', async () => {
      open()
      await shows('Directory of the handler')
      terminal.type('Wrong\r')
      await shows('"Wrong" cannot be the name of a handler')
      terminal.type('pump\r')
      await shows('javascript or typescript')
      terminal.type('ts\r')
      expect(await terminal.ended).toBe(0)
      const manifest = path.join(directory, 'pump/package.json')
      expect(JSON.parse(await readFile(manifest, 'utf8'))).toMatchObject({ name: 'pump' })
      expect(await readdir(path.join(directory, 'pump'))).toContain('tsconfig.json')
    })

    it('asks nothing if the arguments suffice', async () => {
      open('pump', '--language', 'javascript')
      expect(await terminal.ended).toBe(0)
      expect(terminal.raw).not.toContain('?')
      expect(terminal.raw).toMatch(/^pump is in pump, in javascript/)
    })

    it.each([
      ['Ctrl-C', '\u0003'],
      ['Ctrl-D', '\u0004'],
    ])('writes nothing after %s', async (_, key) => {
      open('pump')
      await shows('javascript or typescript')
      terminal.type(key)
      expect(await terminal.ended).toBe(130)
      await shows('stopped; nothing was written')
      expect(await files()).toEqual([])
    })
  },
)
