import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { bundle } from '../../../test/support/bundle.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'

/** Prints what happens to it. Its argument says what it does. */
const SOURCE = `
import { writeSync } from 'node:fs'
import { aborted, InvalidOptionError } from './src/index.js'
import { logLevelOption, programCommand } from './src/program/index.js'
import { print as printTo, startCommands, startProgram, text } from './src/program/index.js'

// Past the streams, whose text is logged.
const print = (text) => void writeSync(1, text + '\\n')
const identity = { name: 'example', description: 'An example.', version: '1.2.3' }
const word = text({ argument: '<text>', meaning: 'a word', variable: 'EXAMPLE_WORD' })
if (process.argv[2] === 'write') process.emitWarning('early')
const unending = () => { print('begun'); return new Promise(() => {}) }
const work = {
  options: { logLevel: logLevelOption(), word },
  arguments: { '<what>': 'what it does' },
  async run({ word }, { args: [what], log, signal, closer, stop, mayBlock, onSuddenEnd }) {
    if (what === 'large') {
      printTo(process.stdout, 'x'.repeat(300_000))
      if (word === 'fails') throw new InvalidOptionError('--word is wrong')
      return
    }
    closer.add(() => print('closed'))
    onSuddenEnd(() => print('ended suddenly'))
    setInterval(() => {}, 1000)
    if (what === 'nothing') return print(word)
    if (what === 'refuse') throw new InvalidOptionError('--word is wrong')
    if (what === 'fail') throw new TypeError('a mistake')
    if (what === 'bug') setImmediate(() => { throw new Error('a stray mistake') })
    if (what === 'load') await mayBlock(unending)
    if (what === 'block') await mayBlock(() => { print('begun'); for (;;) ; })
    if (what === 'wait') await mayBlock(async () => {})
    if (what === 'deaf') closer.add(() => { print('closing'); return new Promise(() => {}) })
    if (what === 'write') {
      process.emitWarning('late')
      process.emitWarning('late')
      process.emitWarning('a matter of a library', 'DeprecationWarning')
      console.log('\\u001b[31mred\\u001b[0m, and\\ntwo lines')
      process.stdout.write('a part ')
      process.stdout.write(Buffer.from('and its rest\\n'))
      console.error('an error')
      process.stdout.write('without an end')
      await new Promise((resolve) => process.stderr.write('last\\n', resolve))
      return
    }
    if (what === 'stop') setImmediate(stop)
    else print('begun')
    await aborted(signal)
  },
}
if (process.env.EXAMPLE_COMMANDS === '1')
  await startCommands(identity, [programCommand('do', 'Does it.', work)])
else await startProgram({ ...identity, ...work })
`

describe('a program', () => {
  let directory: string
  let file: string

  beforeAll(async () => {
    directory = await temporaryDirectory()
    file = path.join(directory, 'example.mjs')
    const resolveDir = path.join(import.meta.dirname, '../..')
    await bundle({ stdin: { contents: SOURCE, resolveDir }, outfile: file })
  })

  function start(args: readonly string[], variables: NodeJS.ProcessEnv = {}): ChildProcess {
    const env = { ...process.env, ...variables }
    const child = spawn(process.execPath, [file, ...args], { env })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }

  /** The end of a program. @param begun called when it prints that it has begun */
  async function end(
    args: readonly string[],
    variables?: NodeJS.ProcessEnv,
    begun: (child: ChildProcess) => void = () => {},
  ) {
    const child = start(args, variables)
    const { stdout, stderr } = child
    if (stdout === null || stderr === null) throw new Error('the program has no pipes')
    const exited = once(child, 'exit')
    const [out, errors] = [text(stdout), text(stderr)]
    stdout.on('data', (chunk) => {
      if (/begun|closing/.test(String(chunk))) begun(child)
    })
    const [code, signal] = await exited
    return { code, signal, out: await out, errors: await errors }
  }

  /** @throws if a line is not a line of the log */
  const logged = (errors: string) =>
    errors
      .trimEnd()
      .split('\n')
      .map((line): Record<string, unknown> => JSON.parse(line))

  it('ends with 0 when its work is done, and has closed its parts', async () => {
    expect(await end(['nothing', '--word', 'hello'])).toMatchObject({
      code: 0,
      out: 'hello\nclosed\n',
      errors: '',
    })
  })

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'ends in order by %s, and two signals of one press count as one',
    async (signal) => {
      const ended = await end(['wait'], {}, (child) => {
        child.kill(signal)
        child.kill(signal)
      })
      expect(ended).toMatchObject({ code: 0, signal: null, out: 'begun\nclosed\n' })
    },
  )

  it('ends at once by a second signal, if it cannot end in order', async () => {
    const ended = await end(['deaf'], {}, (child) => {
      const again = setInterval(() => child.kill('SIGINT'), 50)
      child.once('exit', () => clearInterval(again))
    })
    expect(ended).toMatchObject({
      signal: 'SIGINT',
      out: 'begun\nclosing\nended suddenly\n',
    })
  })

  it('ends in order if its work stops it', async () => {
    expect(await end(['stop'])).toMatchObject({ code: 0, out: 'closed\n' })
  })

  it('ends at once by a signal while its work may block, also a blocked thread', async () => {
    for (const work of ['load', 'block']) {
      const ended = await end([work], {}, (child) => void child.kill('SIGTERM'))
      expect(ended).toMatchObject({ signal: 'SIGTERM', out: 'begun\n' })
    }
  })

  it('logs an error that nothing catches with its stack, and ends with 1', async () => {
    const { code, out, errors } = await end(['bug'])
    expect({ code, out }).toEqual({ code: 1, out: 'begun\nended suddenly\n' })
    expect(JSON.parse(errors)).toMatchObject({
      level: 'error',
      msg: 'program failed',
      err: {
        code: 'AKRI_ERR_INTERNAL',
        cause: { stack: expect.stringMatching(/^Error: a stray/) },
      },
    })
  })

  it('ends with 2 if an option is wrong, and with 1 after another failure', async () => {
    const refused = await end(['refuse'])
    expect(refused).toMatchObject({ code: 2, out: 'closed\n' })
    expect(logged(refused.errors)).toMatchObject([
      { msg: 'program failed', err: { message: '--word is wrong' } },
    ])
    const failed = await end(['fail'])
    expect(failed).toMatchObject({ code: 1, out: 'closed\n' })
    expect(logged(failed.errors)).toMatchObject([
      {
        msg: 'program failed',
        err: { message: 'a mistake', stack: expect.stringMatching(/^TypeError: a mistake\n +at /) },
      },
    ])
    for (const args of [[], ['nothing', '--log-level', 'loud'], ['nothing', '--colour', 'red']]) {
      const { code, errors } = await end(args)
      expect(code).toBe(2)
      expect(logged(errors)).toContainEqual(
        expect.objectContaining({
          msg: 'command line refused',
          text: expect.stringContaining('example --help'),
        }),
      )
    }
  })

  it.each<[string, readonly string[], NodeJS.ProcessEnv]>([
    ['--log-format json', ['do', 'nothing', '--log-format', 'json', '--colour', 'red'], {}],
    ['--log-format=json', ['do', '--log-format=json'], { LOG_FORMAT: 'text' }],
    ['LOG_FORMAT=json', ['undo'], { LOG_FORMAT: 'json' }],
  ])('logs the refusal of the command line of a command with %s', async (_, args, variables) => {
    const { code, out, errors } = await end(args, { EXAMPLE_COMMANDS: '1', ...variables })
    expect([code, out]).toEqual([2, ''])
    expect(logged(errors)).toContainEqual(
      expect.objectContaining({
        msg: 'command line refused',
        text: expect.stringMatching(/unknown|missing/),
      }),
    )
  })

  it.each([
    ['another format', ['--log-format', 'json', '--log-format=text']],
    ['an argument after --', ['--', '--log-format', 'json']],
  ])('refuses the command line of a command in text for a person: %s', async (_, args) => {
    const { code, errors } = await end(['do', ...args, 'b'], { EXAMPLE_COMMANDS: '1' })
    expect(code).toBe(2)
    expect(errors).toMatch(/^error: /)
  })

  it.each<[string, NodeJS.ProcessEnv, number]>([
    ['ends', {}, 0],
    ['fails', {}, 2],
    ['fails', { EXAMPLE_COMMANDS: '1' }, 2],
  ])('waits for a slow reader of its output when it %s', async (word, variables, expected) => {
    const command = variables.EXAMPLE_COMMANDS === undefined ? [] : ['do']
    const child = start([...command, 'large', '--word', word], variables)
    const exited = once(child, 'exit')
    if (child.stdout === null || child.stderr === null) throw new Error('the program has no pipes')
    if (word === 'fails') await once(child.stderr, 'data')
    else await once(child.stdout, 'readable')
    expect(await text(child.stdout)).toBe('x'.repeat(300_000))
    expect(await exited).toEqual([expected, null])
  })

  it('ends with its exit code if the reader closes the output', async () => {
    for (const [word, expected] of [
      ['ends', 0],
      ['fails', 2],
    ] as const) {
      const child = start(['large', '--word', word])
      child.stdout?.once('data', () => child.stdout?.destroy())
      expect(await once(child, 'exit')).toEqual([expected, null])
    }
  })

  it('ends by a signal if the reader takes no more of its output', async () => {
    const child = start(['do', 'large', '--word', 'fails'], { EXAMPLE_COMMANDS: '1' })
    if (child.stderr !== null) await once(child.stderr, 'data')
    const again = setInterval(() => child.kill('SIGTERM'), 50)
    onTestFinished(() => clearInterval(again))
    expect(await once(child, 'exit')).toEqual([143, null])
  })

  it('fails if its help cannot be written', async () => {
    for (const args of [['--help'], ['do', '--help']]) {
      await using full = await open('/dev/full', 'w')
      const { status, stderr } = spawnSync(process.execPath, [file, ...args], {
        encoding: 'utf8',
        stdio: ['ignore', full.fd, 'pipe'],
      })
      expect(stderr).toMatch(/^example: standard output cannot be written: ENOSPC.*\n$/)
      expect(status).toBe(1)
    }
  })

  it('works on if its log cannot be written', async () => {
    await using full = await open('/dev/full', 'w')
    const { status, stdout } = spawnSync(process.execPath, [file, 'write'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', full.fd],
    })
    expect({ status, stdout }).toEqual({ status: 0, stdout: 'closed\n' })
  })

  it('logs warnings of Node.js, and what other code writes, a line each', async () => {
    const { errors, out } = await end(['write'])
    expect(out).toBe('closed\n')
    const lines = logged(errors).map(({ level, msg, text, err }) => [level, msg, text ?? err])
    const warning = (message: string) => [
      'warn',
      'Node.js warned',
      expect.objectContaining({ name: 'Warning', message }),
    ]
    const output = (text: string) => ['info', 'text on standard output', text]
    const error = (text: string) => ['warn', 'text on standard error', text]
    expect(lines).toHaveLength(8)
    expect(lines).toEqual(
      expect.arrayContaining([
        warning('early'),
        warning('late'),
        output('red, and'),
        output('two lines'),
        output('a part and its rest'),
        error('an error'),
        output('without an end'),
        error('last'),
      ]),
    )
  })

  it('takes an empty variable as unset', async () => {
    expect((await end(['nothing'], { EXAMPLE_WORD: '' })).out).toBe('undefined\nclosed\n')
    expect((await end(['nothing'], { EXAMPLE_WORD: 'set' })).out).toBe('set\nclosed\n')
  })

  it('runs the command that its command line names', async () => {
    const environment = { EXAMPLE_COMMANDS: '1', EXAMPLE_WORD: '' }
    const done = await end(['do', 'nothing', '--word', 'hello'], environment)
    expect(done).toMatchObject({ code: 0, out: 'hello\nclosed\n' })
    expect((await end(['do', 'nothing'], environment)).out).toBe('undefined\nclosed\n')
    for (const args of [['undo'], ['do'], ['do', 'nothing', '--colour', 'red']])
      expect((await end(args, environment)).code).toBe(2)
    const refused = { code: 2, errors: 'example: --word is wrong\n' }
    expect(await end(['do', 'refuse'], environment)).toMatchObject({ ...refused, out: 'closed\n' })
    const failed = await end(['do', 'fail'], environment)
    expect(failed).toMatchObject({ code: 1, out: 'closed\n' })
    expect(failed.errors).toMatch(/^example: a mistake\nTypeError: a mistake\n +at /)
    expect(await end(['do', '--help'], environment)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Usage: example do \[options\] <what>/),
    })
  })
})
