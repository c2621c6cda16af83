import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SimulatedAgent } from './testing/simulated-agent.js'

const dist = path.join(import.meta.dirname, '../dist')
const program = path.join(dist, 'akri-handler.js')

let directory: string
let agent: SimulatedAgent
let child: ChildProcess

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-stdin-'))
  agent = await SimulatedAgent.start({ directory })
})

afterEach(async () => {
  child.kill('SIGKILL')
  await agent.close()
  await rm(directory, { recursive: true, force: true })
})

/** A handler that does these things when it is imported, and for each discovery. */
async function handler(imported: string, discover: string): Promise<string> {
  const file = path.join(directory, 'handler.mjs')
  await writeFile(
    file,
    `import { defineDiscoveryHandler } from ${JSON.stringify(pathToFileURL(path.join(dist, 'index.js')).href)}
    const details = { '~standard': { version: 1, vendor: 'own', validate: (value) => ({ value }) } }
    ${imported}
    export default defineDiscoveryHandler({
      name: 'held', shared: false, details,
      async *discover() { yield [{ id: 'one' }]; ${discover} },
    })`,
  )
  return file
}

/** @param stdin the pipe that somebody holds, or none */
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

function endOf(one: ChildProcess): Promise<number | NodeJS.Signals | null> {
  return new Promise((resolve) => one.once('exit', (code, signal) => resolve(code ?? signal)))
}

/** All that the kernel does when whoever started it is killed. */
function letGo(): void {
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy()
  agent.die()
}

const socket = () => path.join(directory, 'held.sock')

describe('akri-handler --until-stdin-ends', () => {
  it('ends as by SIGTERM when nobody holds its standard input open any more, although nobody hears what it says', async () => {
    const talks = `setInterval(() => process.stdout.write('here I am\\n'), 1)`
    const ended = start(await handler(talks, ''), ['--until-stdin-ends'])
    const session = await agent.discover('held')
    expect(await session.next()).toMatchObject([{ id: 'one' }])
    expect(existsSync(socket())).toBe(true)
    letGo()
    expect(await ended).toBe(0)
    expect(existsSync(socket())).toBe(false)
  })

  it('ends also while its handler is still being loaded, however long that takes', async () => {
    const ended = start(await handler(`process.stdout.write('loading'); for (;;) {}`, ''), [
      '--until-stdin-ends',
    ])
    await new Promise((resolve) => child.stdout?.once('data', resolve))
    letGo()
    expect(await ended).toBe('SIGTERM')
  })

  it('is ended by force where its handler gives nothing else a turn', async () => {
    const ended = start(await handler('', 'for (;;) {}'), ['--until-stdin-ends'])
    await (await agent.discover('held')).next()
    const begun = performance.now()
    letGo()
    expect(await ended).toBe('SIGKILL')
    expect(performance.now() - begun).toBeLessThan(30_000)
  })

  it('says that it cannot be where nobody can hold its standard input', async () => {
    const ended = start(await handler('', ''), ['--until-stdin-ends'], 'ignore')
    let said = ''
    child.stderr?.on('data', (part) => {
      said += String(part)
    })
    expect(await ended).toBe(1)
    expect(said).toMatch(
      /^akri-handler: the standard input is not a pipe.*leave out --until-stdin-ends[^\n]*\n$/,
    )
  })
})

describe('akri-handler as people and Kubernetes start it', () => {
  it.each(['ignore', 'pipe'] as const)(
    'serves on whatever becomes of its standard input (%s)',
    async (stdin) => {
      start(await handler('', ''), [], stdin)
      await agent.registration('held')
      child.stdin?.destroy()
      agent.die()
      await agent.comeBack()
      await agent.registration('held', 2)
      expect(await (await agent.discover('held')).next()).toMatchObject([{ id: 'one' }])
    },
  )
})
