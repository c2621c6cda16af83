import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { missingForTerminals, Terminal } from '../standalone/support/terminal.js'
import { eventually } from '../support/eventually.js'
import { missingPackages, root } from './support/packages.js'

const program = path.join(root, 'create-handler/dist/create-handler.js')
const lacks = missingPackages()
const lacksTerminal = missingForTerminals()
const unless = (missing: string | undefined) => (missing === undefined ? '' : ` (${missing})`)

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

  it.each([
    [[], 2, 'name the directory of the handler, such as my-sensor'],
    [['Sensor'], 2, /"Sensor" cannot be the name .* such as my-sensor, or give --name\n$/],
    [['a/../udev'], 2, /"udev" is the name of a handler of Akri; .* my-udev/],
    [['x', '--name', 'X'], 2, '"X" cannot be the name of a handler'],
    [['x', '--language', 'java'], 2, 'use javascript or typescript'],
    [['x', '--langage', 'ts'], 2, "Unknown option '--langage'; see --help"],
    [['none/x'], 1, /there is no directory \/.*\/none; make it first\n$/],
    [['.', '--name', 'x'], 1, 'is the working directory; name a directory in it'],
    [['taken'], 1, /\/taken is there already, and is not an empty directory\n$/],
    [['x', '--packages', 'none'], 1, 'none cannot be read: ENOENT'],
    [['x', '--packages', 'taken'], 1, 'taken has no tarball of @akrijs/sdk, @akrijs/cli'],
  ])('refuses %j in a line, and writes nothing', async (args, code, message) => {
    await mkdir(path.join(directory, 'taken'))
    await writeFile(path.join(directory, 'taken/mine.txt'), 'mine')
    const { status, stdout, stderr } = create(...args)
    expect(stderr).toMatch(/^create-handler: [^\n]+\n$/)
    expect(stderr).toMatch(message)
    expect([status, stdout]).toEqual([code, ''])
    expect(await files()).toEqual(['taken', 'taken/mine.txt'])
  })

  it('prints its help and its version', async () => {
    expect(create('--help')).toMatchObject({ status: 0, stdout: expect.stringMatching(/^Usage: /) })
    const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'))
    expect(create('--version')).toMatchObject({ status: 0, stdout: `${version}\n` })
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
