import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { SimulatedAgent } from './testing/simulated-agent.js'

const dist = path.join(import.meta.dirname, '../dist')
const program = path.join(dist, 'akri-handler.js')

let directory: string
let agent: SimulatedAgent
let child: ChildProcess

beforeEach(async () => {
  directory = await temporaryDirectory()
  agent = await SimulatedAgent.start({ directory })
})

afterEach(async () => {
  child.kill('SIGKILL')
  await agent.close()
})

/** A handler that runs code on its import, and other code in each discovery. */
async function handler(imported: string, discover: string): Promise<string> {
  const file = path.join(directory, 'handler.mjs')
  const sdk = pathToFileURL(path.join(dist, 'index.js')).href
  await writeFile(
    file,
    `import { defineDiscoveryHandler } from ${JSON.stringify(sdk)}
    const details = { '~standard': { version: 1, vendor: 'own', validate: (value) => ({ value }) } }
    ${imported}
    export default defineDiscoveryHandler({
      name: 'held', shared: false, details,
      async *discover() { yield [{ id: 'one' }]; ${discover} },
    })`,
  )
  return file
}

/** @param stdin a pipe that the test holds open, or none */
function start(
  file: string,
  args: readonly string[],
  stdin: 'pipe' | 'ignore' = 'pipe',
): ReturnType<typeof endOf> {
  const { POD_IP: _none, ...env } = process.env
  child = spawn(process.execPath, [program, ...args, file], {
    env: { ...env, DISCOVERY_HANDLERS_DIRECTORY: directory },
    stdio: [stdin, 'pipe', 'pipe'],
  })
  return endOf(child)
}

function endOf(process: ChildProcess): Promise<number | NodeJS.Signals | null> {
  return new Promise((resolve) => process.once('exit', (code, signal) => resolve(code ?? signal)))
}

/** Closes what the kernel closes when the program that started akri-handler is killed. */
function letGo(): void {
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy()
  agent.die()
}

/** A busy machine takes longer to start a program than an agent waits. */
const discovery = () => eventually(() => agent.discover('held'))
const LIMIT_MS = 120_000

const socket = () => path.join(directory, 'held.sock')

describe('akri-handler --until-stdin-ends', () => {
  it('ends with 0 when its standard input is closed and its output is not read', async () => {
    const talks = `setInterval(() => process.stdout.write('here I am\\n'), 1)`
    const ended = start(await handler(talks, ''), ['--until-stdin-ends'])
    const session = await discovery()
    expect(await session.next(LIMIT_MS)).toMatchObject([{ id: 'one' }])
    expect(existsSync(socket())).toBe(true)
    letGo()
    expect(await ended).toBe(0)
    expect(existsSync(socket())).toBe(false)
  })

  it('ends while its handler still loads, however long that takes', async () => {
    const ended = start(await handler(`console.log('loading'); for (;;) {}`, ''), [
      '--until-stdin-ends',
    ])
    // A line of the log has the text.
    await new Promise((resolve) => child.stderr?.once('data', resolve))
    letGo()
    expect(await ended).toBe('SIGTERM')
  })

  it('is killed if its handler blocks the thread', async () => {
    const ended = start(await handler('', 'for (;;) {}'), ['--until-stdin-ends'])
    await (await discovery()).next(LIMIT_MS)
    letGo()
    expect(await ended).toBe('SIGKILL')
  })

  it('refuses the option if the standard input is not a pipe', async () => {
    const ended = start(await handler('', ''), ['--until-stdin-ends'], 'ignore')
    let stderr = ''
    child.stderr?.on('data', (part) => {
      stderr += String(part)
    })
    expect(await ended).toBe(2)
    expect(stderr).toMatch(
      /^\{.*"the standard input is not a pipe.*leave out --until-stdin-ends[^\n]*\n$/,
    )
  })
})

describe('akri-handler without --until-stdin-ends', () => {
  it.each(['ignore', 'pipe'] as const)(
    'serves on, whatever happens to its standard input (%s)',
    async (stdin) => {
      start(await handler('', ''), [], stdin)
      await eventually(() => agent.registration('held'))
      child.stdin?.destroy()
      agent.die()
      await agent.comeBack()
      await eventually(() => agent.registration('held', 2))
      expect(await (await discovery()).next(LIMIT_MS)).toMatchObject([{ id: 'one' }])
    },
  )
})
