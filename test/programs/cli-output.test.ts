import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { COMMANDS } from '../../cli/src/command-texts.js'
import { AkriProgram, root } from '../standalone/support/akri-program.js'
import { eventually } from '../support/eventually.js'

const empty = mkdtempSync(path.join(os.tmpdir(), 'akri-o-'))
afterAll(() => rmSync(empty, { recursive: true, force: true }))

/** Each command with arguments that make it fail, and what the failure says. */
const FAILURES: Readonly<Record<keyof typeof COMMANDS, readonly [string[], RegExp]>> = {
  run: [[], /nothing to run/],
  discover: [['none-such'], /npm install none-such/],
  validate: [['none-such.yaml'], /1 problem found/],
  get: [['instances', '--state-dir', empty], /no agent|cannot be reached/],
  describe: [['instance', 'x', '--state-dir', empty], /no agent|cannot be reached/],
  migrate: [['sideways'], /is no direction/],
  completion: [['csh'], /no completion for csh/],
}
const failures = Object.entries(FAILURES).map(([command, [args, message]]) => ({
  command,
  args,
  message,
}))

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

describe('akri', () => {
  it.each(Object.entries(COMMANDS))('%s has --log-format and --color', (_name, { options }) => {
    expect(options).toMatchObject({
      logFormat: { choices: ['text', 'json'], default: 'text', variable: 'LOG_FORMAT' },
      color: { choices: ['auto', 'always', 'never'], default: 'auto' },
    })
  })

  it.each(failures)('$command --log-format json fails with a line of JSON', (failure) => {
    const { command, args, message } = failure
    const { stderr, status } = akri.run([command, '--log-format', 'json', ...args])
    const lines = stderr.trimEnd().split('\n')
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({
      name: 'akri',
      level: 'error',
      msg: 'program failed',
      err: { message: expect.stringMatching(message) },
    })
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ name: 'akri' })
    expect(status).toBeGreaterThan(0)
  })

  it.each([
    ['discover', ['--once']],
    ['discover --watch', ['--watch']],
  ])('%s --log-format json logs lines of JSON', async (_command, more) => {
    const handler = await akri.writeHandler(`
      console.log('found %d', 3)
      context.log.warn({ bus: 7 }, 'bus is slow')
      yield [{ id: 'it' }]
      throw new Error('no bus')`)
    const args = ['discover', handler, '--log-format', 'json', '--color', 'always', ...more]
    const child = spawn(process.execPath, [path.join(root, 'cli/dist/akri.js'), ...args])
    onTestFinished(() => void child.kill('SIGKILL'))
    const output = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name].on('data', (chunk) => {
        output[name] += String(chunk)
      })
    const lines = () =>
      output.stderr
        .split('\n')
        .slice(0, -1)
        .map((line): unknown => JSON.parse(line))
    await eventually(() => {
      expect(output.stdout).toMatch(/^ID .*\nit *\n/)
      expect(lines()).toContainEqual(expect.objectContaining({ text: 'found 3', level: 'warn' }))
      expect(lines()).toContainEqual(expect.objectContaining({ bus: 7, msg: 'bus is slow' }))
      if (more.includes('--watch'))
        expect(lines()).toContainEqual(
          expect.objectContaining({ msg: 'handler failed', text: expect.stringMatching('no bus') }),
        )
    })
  })

  it('tells of an empty first list in a line of JSON', async () => {
    const handler = await akri.writeHandler(`
      yield []
      yield [{ id: 'it' }]`)
    const { stderr } = akri.run(['discover', handler, '--log-format', 'json'])
    expect(JSON.parse(stderr)).toMatchObject({ msg: 'first list was empty' })
  })

  it.each([
    ['', {}, false],
    ['', { FORCE_COLOR: '1' }, true],
    ['', { FORCE_COLOR: '1', NO_COLOR: '1' }, true],
    ['', { FORCE_COLOR: '0' }, false],
    ['', { NO_COLOR: '1' }, false],
    ['always', { NO_COLOR: '1', TERM: 'dumb' }, true],
    ['never', { FORCE_COLOR: '1' }, false],
  ] as const)(
    'discover --color "%s" with %j has colours: %s',
    async (choice, variables, colored) => {
      const handler = await akri.writeHandler(`
      console.log('a text')
      yield [{ id: 'it' }]`)
      const args = ['discover', handler, '--once', ...(choice === '' ? [] : ['--color', choice])]
      const { stderr } = akri.run(args, '', { FORCE_COLOR: '', NO_COLOR: '', ...variables })
      const level = colored ? '\u001b[33mwarn\u001b[39m' : 'warn'
      expect(stderr).toContain(` ${level}  text on standard output`)
    },
  )
})
