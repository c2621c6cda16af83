import { spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'

const akri = AkriProgram.ofEachTest()

/** Runs a handler that does this after its first list. */
async function run(then: string): Promise<void> {
  const handler = await akri.writeHandler(`yield [{ id: 'it' }]\n${then}`)
  const file = await akri.write(
    'mine.yaml',
    'apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: lab }\n' +
      'spec: { discoveryHandler: { name: mine } }\n',
  )
  akri.start('-f', file, '--handler', handler)
}

const PLACE = 'handler=.?mine.? place=.*/mine\\.mjs:\\d+"?'
const ALL = 'handlers=.*mine.*'
const ENDED = 'handler ended the process'
const REMEDY = 'remedy="run each handler .*--isolated'

describe('the last words of akri run name the handler in it', () => {
  const END = 'export const end = () => setImmediate(() => process.exit(3))'
  const WAIT = 'await new Promise(() => {})'

  it.each([
    [
      'that ends the process as if it had succeeded',
      'process.exit(0)',
      1,
      `${ENDED} ${PLACE} code=0`,
    ],
    [
      'whose error nothing handles',
      `setTimeout(() => { throw new Error('no bus') })\n${WAIT}`,
      1,
      `program failed err=.*no bus.* ${PLACE}`,
    ],
    [
      'whose error has no place: a socket without a listener',
      `const net = await import('node:net')\nnet.connect(1, '127.0.0.1')\n${WAIT}`,
      1,
      `program failed err=.* ${ALL}`,
    ],
    [
      'whose error has no place: a text that is thrown',
      `setTimeout(() => { throw 'no bus' })\n${WAIT}`,
      1,
      `program failed err=.* ${ALL}`,
    ],
    [
      'whose library ends the process',
      `const { end } = await import('bus')\nend()\n${WAIT}`,
      3,
      `${ENDED} ${ALL} code=3`,
    ],
  ])('%s', async (_title, then, code, words) => {
    await mkdir(path.join(akri.directory, 'node_modules/bus'), { recursive: true })
    await akri.write('node_modules/bus/index.mjs', END)
    await akri.write('node_modules/bus/package.json', '{ "exports": "./index.mjs" }')
    await run(then)
    expect(await akri.ended()).toBe(code)
    await eventually(() => expect(akri.output).toMatch(new RegExp(` error ${words} ${REMEDY}`)))
    // One line says it.
    expect(akri.output.match(/ error (handler ended|program failed)/g)).toHaveLength(1)
  })

  it('that blocks the event loop, also in a call, until the loop runs again', async () => {
    const [awake, returned] = ['awake', 'returned'].map((name) => path.join(akri.directory, name))
    await run(`
      const { execSync } = await import('node:child_process')
      const { existsSync } = await import('node:fs')
      const cell = new Int32Array(new SharedArrayBuffer(4))
      while (!existsSync(${JSON.stringify(awake)})) Atomics.wait(cell, 0, 0, 20)
      await new Promise((resolve) => setTimeout(resolve, 3000))
      execSync('while [ -d ${akri.directory} -a ! -e ${returned} ]; do sleep 0.1; done')`)
    const printed = (pattern: RegExp) =>
      eventually(() => expect(akri.output).toMatch(pattern), 120_000)
    try {
      const place = `blocked by a handler ${PLACE} .*${REMEDY}`
      await printed(new RegExp(` error event loop ${place}`))
      await akri.write('awake', '')
      await printed(/ info {2}event loop runs again blockedMs=/)
      await printed(
        new RegExp(` error event loop blocked by a call .*handlers=\\["mine"\\] ${REMEDY}`),
      )
      await akri.write('returned', '')
    } finally {
      // SIGTERM waits for the event loop.
      await akri.stop('SIGKILL')
    }
  })
})

it('a loop that is blocked for ever is a line of the log of the agent', async () => {
  const thread = pathToFileURL(path.join(root, 'agent/dist/loop-watch.js')).href
  const script = await akri.write(
    'main.mjs',
    `import { Worker } from 'node:worker_threads'
    const beats = new Int32Array(new SharedArrayBuffer(4))
    const workerData = { beats, limitMs: 1000, program: 'akri-agent', isText: false, remedy: 'x' }
    const worker = new Worker(new URL(${JSON.stringify(thread)}), { workerData })
    worker.postMessage(new Map([[import.meta.filename, 'mine']]))
    await new Promise((resolve) => worker.once('online', resolve))
    for (;;) {}`,
  )
  const child = spawn(process.execPath, [script])
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += String(chunk)
  })
  await eventually(() => expect(output).toContain('\n'))
  expect(JSON.parse(output)).toEqual({
    level: 'error',
    time: expect.any(Number),
    pid: child.pid,
    name: 'akri-agent',
    handler: 'mine',
    place: `${script}:7`,
    blockedMs: expect.any(Number),
    remedy: 'x',
    msg: 'event loop blocked by a handler',
  })
})
