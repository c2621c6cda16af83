import { mkdtemp, readdir, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { missingForTerminals, Terminal } from '../standalone/support/terminal.js'
import { eventually } from '../support/eventually.js'
import { describeUnless } from '../support/unless.js'
import { missingPackages, root } from './support/packages.js'

const program = path.join(root, 'create-handler/dist/create-handler.js')

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-create-'))
})

const files = async () => (await readdir(directory, { recursive: true })).sort()

const missing = [...missingPackages(), ...missingForTerminals()]
describeUnless(missing, 'create-handler on a terminal', () => {
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
})
