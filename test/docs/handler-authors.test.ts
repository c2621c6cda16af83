import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { missingRegistry, startRegistry } from '../../scripts/test-registry.mjs'
import { buildImage, missingPackages, PackedPackages } from '../create-handler/support/packages.js'
import { type Block, blocksOf, type Command } from './author-page.js'

const root = path.join(import.meta.dirname, '../..')
const BLOCKS = blocksOf(readFileSync(path.join(root, 'docs/handler-authors.md'), 'utf8'))
/** Commands that no test runs, each with what a test does instead. */
const NOT_RUN = new Map([
  [
    'docker build -t registry.example/printers:1.0.0 .',
    'needs a container engine: a test does the steps of the Dockerfile in directories',
  ],
])
/** Sections whose commands need packages of a registry. */
const OF_REGISTRY = ['A new project', 'Publish it']
/** For a busy machine, in milliseconds. */
const PATIENT = { timeout: 120_000, interval: 100 }
const started = new Set<ChildProcess>()
const missing = [missingRegistry() ?? [], missingPackages() ?? []].flat()
const lacksRegistry = missing.length > 0
const title = `with a registry${lacksRegistry ? ` (needs ${missing.join(', ')})` : ''}`

let directory: string
/** Where the reader is. */
let cwd: string
let port: string
let registry: Awaited<ReturnType<typeof startRegistry>> | undefined

beforeAll(async () => {
  directory = await realpath(await mkdtemp(path.join(os.tmpdir(), 'akri-a-')))
  cwd = directory
  port = String(await freePort())
  if (lacksRegistry) return
  registry = await startRegistry(directory)
  const packed = path.join(directory, 'packed')
  await mkdir(packed)
  const packages = await PackedPackages.pack(packed, ['zod'])
  const published = ['zod', 'sdk', ...HANDLERS, 'cli', 'create-handler']
  for (const name of published) {
    const tarball = packages.of(name === 'zod' ? name : `@akrijs/${name}`)
    const publish = `npm publish --ignore-scripts --no-provenance --silent ${tarball}`
    const { child, output } = start(publish)
    expect([await end(child), output()]).toEqual([0, expect.anything()])
  }
})

const HANDLERS = ['handler-debug-echo', 'handler-onvif', 'handler-opcua', 'handler-udev']

afterAll(async () => {
  for (const child of started) await end(child, 'SIGTERM')
  registry?.close()
  await rm(directory, { recursive: true, force: true, maxRetries: 3 })
})

/** A port that no program uses now. */
async function freePort(): Promise<number> {
  const socket = createSocket('udp4')
  await once(socket.bind(0), 'listening')
  const { port } = socket.address()
  socket.close()
  return port
}

/** Starts a command in a process group of its own. @returns also all that it has printed */
function start(command: string): { readonly child: ChildProcess; readonly output: () => string } {
  const env = Object.entries(registry?.env ?? process.env).filter(
    ([name]) => !/^(AKRI_|POD_IP|LOG_)/.test(name),
  )
  const child = spawn('bash', ['-c', command], {
    cwd,
    detached: true,
    env: {
      ...Object.fromEntries(env),
      PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`,
    },
  })
  started.add(child)
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part) => {
      printed += String(part)
    })
  return { child, output: () => printed }
}

/** @returns the exit code; the signal if that ended the command */
async function end(child: ChildProcess, signal?: NodeJS.Signals): Promise<unknown> {
  if (child.exitCode === null && child.signalCode === null) {
    const closed = once(child, 'close')
    if (signal !== undefined && child.pid !== undefined) process.kill(-child.pid, signal)
    await closed
  }
  started.delete(child)
  return child.exitCode ?? child.signalCode
}

/** Expects each line of the page in an output; `…` stands for any text. */
function expectLines(output: string, lines: readonly string[]): void {
  const text = output.replace(/[ \t]+$/gm, '')
  for (const line of lines) {
    const parts = line.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    expect(text).toMatch(new RegExp(`^${parts.join('.*')}$`, 'm'))
  }
}

/** What `npx` runs: the program of this directory, or of the newest version. */
function withPrograms(command: string): string {
  const akri = 'node_modules/@akrijs/cli/dist/akri.js'
  const installed = existsSync(path.join(cwd, akri)) ? akri : path.join(root, 'cli/dist/akri.js')
  return command
    .replace('npx @akrijs/cli', `node ${installed}`)
    .replace('npx akri-handler', 'node node_modules/@akrijs/sdk/dist/akri-handler.js')
}

/** Does what a reader of the blocks does. */
async function follow(blocks: readonly Block[]): Promise<void> {
  for (const block of blocks) {
    if (block.kind === 'file') {
      const code = block.code.replaceAll('30303', port)
      await writeFile(path.join(cwd, block.name), code)
    }
    if (block.kind === 'commands') for (const command of block.commands) await type(command)
  }
}

async function type({ text, lines: shown }: Command): Promise<void> {
  const folder = /^cd (\S+)$/.exec(text)?.[1]
  if (folder !== undefined) {
    cwd = path.join(cwd, folder)
    return
  }
  if (NOT_RUN.has(text)) return
  if (lacksRegistry && text.startsWith('npm install ')) {
    await symlink(path.join(root, 'node_modules'), path.join(cwd, 'node_modules'))
    return
  }
  const isLong = shown.at(-1) === '^C'
  const lines = (isLong ? shown.slice(0, -1) : shown).map((line) => line.replace('30303', port))
  const command = withPrograms(text.replaceAll('30303', port))
  if (isLong || command.endsWith(' &')) {
    const { child, output } = start(command.replace(/ &$/, ''))
    await vi.waitFor(() => expectLines(output(), lines), PATIENT)
    if (isLong) expect(await end(child, 'SIGINT')).toBe(0)
    return
  }
  const attempt = async () => {
    const { child, output } = start(command)
    const code = await end(child)
    expectLines(output(), lines)
    // The page shows which commands fail.
    if (!lines.some((line) => /^akri: /.test(line)))
      expect([command, code, output()]).toEqual([command, 0, expect.anything()])
  }
  // Another program of the page may need time for what a query shows.
  await (/ get /.test(command) ? vi.waitFor(attempt, PATIENT) : attempt())
}

it('R67 each block of the page for authors is a file, or commands that a test runs', () => {
  expect(BLOCKS.filter(({ kind }) => kind === 'other')).toEqual([])
  const commands = BLOCKS.flatMap((block) => (block.kind === 'commands' ? block.commands : []))
  expect(commands.length).toBeGreaterThan(40)
  const texts = commands.map(({ text }) => text)
  expect(texts).toEqual(expect.arrayContaining([...NOT_RUN.keys()]))
  const sections = BLOCKS.map(({ section }) => section)
  expect(sections).toEqual(expect.arrayContaining(OF_REGISTRY))
})

it('R67 each test of the page for authors runs with its handler', () => {
  const files = BLOCKS.flatMap((block) => (block.kind === 'file' ? block.name : []))
  const tests = files.filter((file) => file.endsWith('.test.js'))
  expect(tests).toEqual([
    'handler.test.js',
    'heartbeats.test.js',
    'web-devices.test.js',
    'hub.test.js',
    'locks.test.js',
  ])
  expect(files).toEqual(
    expect.arrayContaining(tests.map((name) => name.replace('.test.js', '.js'))),
  )
  const commands = BLOCKS.flatMap((block) => (block.kind === 'commands' ? block.commands : []))
  expect(commands.map(({ text }) => text)).toEqual(
    expect.arrayContaining(tests.map((name) => `node --test ${name}`)),
  )
})

it('R67 the commands of the page for authors print what the page shows', async () => {
  await follow(BLOCKS.filter(({ section }) => !OF_REGISTRY.includes(section)))
}, 600_000)

describe.skipIf(lacksRegistry)(title, () => {
  it('R67 the Dockerfile of the page gives an image whose command serves the handler', async () => {
    const stages = path.join(directory, 'stages')
    await mkdir(stages)
    const { npm_config_userconfig = '' } = registry?.env ?? {}
    const { app, command } = await buildImage(cwd, stages, { npm_config_userconfig })
    const [program = '', ...args] = command
    const agent = await SimulatedAgent.start()
    const child = spawn(path.join(app, program), args, {
      cwd: app,
      env: {
        PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`,
        DISCOVERY_HANDLERS_DIRECTORY: agent.directory,
        LOG_LEVEL: 'warn',
      },
      stdio: 'inherit',
    })
    const ended = once(child, 'exit')
    try {
      const session = await agent.discover('printers', { details: 'model: LX-350' })
      expect(await session.next(120_000)).toMatchObject([{ id: 'usb-1' }])
    } finally {
      child.kill()
      await ended
      await agent.close()
    }
  })

  it.each(OF_REGISTRY)(
    'R67 the commands of the section "%s" print what it shows',
    async (name) => {
      await follow(BLOCKS.filter(({ section }) => section === name))
    },
    600_000,
  )
})
