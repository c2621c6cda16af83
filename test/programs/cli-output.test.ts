import { spawn } from 'node:child_process'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { AkriProgram, root } from '../standalone/support/akri-program.js'
import { eventually } from '../support/eventually.js'

const akri = AkriProgram.ofEachTest()

/** Complete lines of a log. @throws if a line is incomplete */
const parsed = (output: string) =>
  output
    .split('\n')
    .slice(0, -1)
    .map((line): unknown => JSON.parse(line))

const BROKER = "echo seen $ID; printf '\\033[31mred\\n'; sleep 600"

describe('akri', () => {
  it('run --log-format json writes nothing but lines of JSON', async () => {
    const handler = await akri.writeHandler(`
      console.log('text of a\\nhandler')
      yield [{ id: 'it', properties: { ID: 'it' } }]`)
    const containers = [{ name: 'broker', command: ['sh', '-c', BROKER] }]
    const configuration = {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'lab' },
      spec: {
        discoveryHandler: { name: 'mine' },
        brokerSpec: { brokerPodSpec: { containers } },
      },
    }
    const file = await akri.write('c.yaml', JSON.stringify(configuration))
    akri.start('-f', file, '--handler', handler, '--log-format', 'json', '--color', 'always')
    const broker = (text: string) =>
      expect.objectContaining({
        name: 'akri',
        level: 'info',
        msg: 'text of a broker',
        broker: expect.stringMatching(/^lab-/),
        text: expect.stringContaining(text),
      })
    await eventually(() => {
      expect(parsed(akri.output)).toContainEqual(broker('seen it'))
      expect(parsed(akri.output)).toContainEqual(broker('red'))
      expect(parsed(akri.output)).toContainEqual(expect.objectContaining({ text: 'handler' }))
    })
    expect(await akri.stop('SIGTERM')).toBe(0)
    expect(akri.output).toMatch(/\n$/)
    parsed(akri.output)
  })

  it.each([
    ['run', [], 2, /nothing to run/],
    ['run', ['-f', 'c.yaml', '--state-dir', 's'], 1, /it is not a directory/],
    ['discover', ['none-such'], 1, /npm install none-such/],
    ['validate', ['none-such.yaml'], 1, /1 problem found/],
  ] as const)('%s %j fails with a line of JSON with --log-format json', async (...failure) => {
    const [command, args, code, message] = failure
    // The directory of the state is a file.
    await akri.write('s', '')
    const { status, stderr } = akri.run([command, '--log-format', 'json', ...args])
    const lines = parsed(stderr)
    expect(lines.at(-1)).toMatchObject({
      name: 'akri',
      level: 'error',
      msg: 'program failed',
      err: { message: expect.stringMatching(message) },
    })
    for (const line of lines) expect(line).toMatchObject({ name: 'akri' })
    expect(status).toBe(code)
  })

  it.each([
    ['discover', []],
    ['discover --watch', ['--watch']],
  ])('%s --log-format json logs lines of JSON', async (_command, more) => {
    const handler = await akri.writeHandler(`
      console.log('found %d', 3)
      context.log.warn({ bus: 7 }, 'bus is slow')
      yield []
      await new Promise((resolve) => setImmediate(resolve))
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
    const last = more.includes('--watch')
      ? { msg: 'handler failed', text: expect.stringMatching('no bus') }
      : { msg: 'first list was empty' }
    await eventually(() => {
      expect(output.stdout).toMatch(/^ID .*\nit *\n/m)
      const lines = parsed(output.stderr)
      expect(lines).toContainEqual(expect.objectContaining({ text: 'found 3', level: 'warn' }))
      expect(lines).toContainEqual(expect.objectContaining({ bus: 7, msg: 'bus is slow' }))
      expect(lines).toContainEqual(expect.objectContaining(last))
    })
  })
})
