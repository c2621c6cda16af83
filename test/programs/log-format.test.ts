import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { environmentWith } from './environment.js'

const REPOSITORY = path.resolve(import.meta.dirname, '../..')

/** Writes as libraries do, as soon as the work of the program begins. */
const NOISE = `
const timer = setInterval(() => {
  if (process.listenerCount('uncaughtException') === 0) return
  clearInterval(timer)
  console.log('\\u001b[33m[NODE-OPCUA-W27]\\u001b[0m a warning\\nof two lines')
  console.error(new Error('a problem of a library'))
  for (const target of [new EventTarget(), new EventTarget()])
    for (let count = 0; count < 20; count++) target.addEventListener('noise', () => {})
  process.stdout.write('the end of the noise\\n')
}, 10)
`

let environment: Record<string, string>
let noise: string

beforeAll(async () => {
  // A port at which nothing listens.
  environment = await environmentWith('http://127.0.0.1:1')
  noise = `${environment.KUBECONFIG}-noise.cjs`
  await writeFile(noise, NOISE)
})

function start(program: string, args: readonly string[], variables: NodeJS.ProcessEnv) {
  const env = { PATH: process.env.PATH, ...environment, ...variables }
  const child = spawn(process.execPath, [path.join(REPOSITORY, program), ...args], { env })
  onTestFinished(() => void child.kill('SIGKILL'))
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  return { child, output }
}

/** @throws if a line is no line of a log */
function parsed(output: string) {
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map((line): Record<string, unknown> => JSON.parse(line))
}

const PROGRAMS: readonly (readonly [name: string, program: string, ...args: string[]])[] = [
  ['akri-agent', 'agent/dist/akri-agent.js'],
  ['akri-controller', 'controller/dist/akri-controller.js'],
  ['akri-webhook', 'webhook/dist/akri-webhook.js'],
  [
    'akri-handler',
    'sdk/dist/akri-handler.js',
    path.join(REPOSITORY, 'handlers/debug-echo/dist/index.js'),
  ],
]

describe.each(PROGRAMS)('%s', (name, program, ...args) => {
  it('writes nothing but lines of its log', async () => {
    const { child, output } = start(program, args, {
      NODE_OPTIONS: `--require ${noise}`,
      LOG_LEVEL: 'debug',
    })
    const exited = once(child, 'exit')
    let seen = ''
    child.stderr.on('data', (part) => {
      seen += String(part)
      if (seen.includes('the end of the noise') && seen.includes('MaxListeners')) child.kill()
    })
    await exited
    const [stdout, stderr] = await output
    expect(stdout).toBe('')
    const lines = parsed(stderr)
    for (const line of lines)
      expect(line).toMatchObject({
        name,
        level: expect.stringMatching(/^(debug|info|warn|error)$/),
        msg: expect.any(String),
      })
    const texts = lines.flatMap((line) => (typeof line.text === 'string' ? [line.text] : []))
    expect(texts).toEqual(
      expect.arrayContaining([
        '[NODE-OPCUA-W27] a warning',
        'of two lines',
        'Error: a problem of a library',
        'the end of the noise',
      ]),
    )
    // Node.js warns of each of the targets, with the same text.
    // Of deprecations it warns by its version, at the level debug.
    const warned = ({ msg, level }: Record<string, unknown>) =>
      msg === 'Node.js warned' && level !== 'debug'
    expect(lines.filter(warned)).toEqual([
      expect.objectContaining({
        level: 'warn',
        err: expect.objectContaining({ name: 'MaxListenersExceededWarning' }),
      }),
    ])
  })

  it('writes a line of its log for what it cannot start with', async () => {
    // A handler needs a module in place of a cluster.
    const modules = name === 'akri-handler' ? ['./no-such-handler.js'] : args
    const { child, output } = start(program, modules, { KUBECONFIG: '/no/such/file' })
    expect((await once(child, 'exit'))[0]).toBe(1)
    const [stdout, stderr] = await output
    expect(stdout).toBe('')
    expect(parsed(stderr)).toContainEqual(
      expect.objectContaining({ name, level: 'error', msg: 'program failed' }),
    )
  })
})
