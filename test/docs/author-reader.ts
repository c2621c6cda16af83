import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, vi } from 'vitest'
import { type Block, blocksOf, type Command } from './author-page.js'

const root = path.join(import.meta.dirname, '../..')
export const BLOCKS = blocksOf(readFileSync(path.join(root, 'docs/handler-authors.md'), 'utf8'))
/** Commands that no test runs, each with what a test does instead. */
export const NOT_RUN = new Map([
  [
    'docker build -t registry.example/printers:1.0.0 .',
    'needs a container engine: a test does the steps of the Dockerfile in directories',
  ],
])
/** Sections whose commands need packages of a registry. */
export const OF_REGISTRY = ['A new project', 'Publish it']
/** For a busy machine, in milliseconds. */
const PATIENT = { timeout: 120_000, interval: 100 }

/** Does what a reader of the page for authors does, in a directory of its own. */
export class AuthorReader {
  readonly directory: string
  /** Where the reader is. */
  cwd: string
  readonly #port: string
  readonly #started = new Set<ChildProcess>()
  #registry: NodeJS.ProcessEnv | undefined

  private constructor(directory: string, port: string) {
    this.directory = directory
    this.cwd = directory
    this.#port = port
  }

  static async begin(): Promise<AuthorReader> {
    const directory = await realpath(await mkdtemp(path.join(os.tmpdir(), 'akri-a-')))
    return new AuthorReader(directory, String(await freePort()))
  }

  /** Installs packages from a registry from now on. @param env of its clients */
  useRegistry(env: NodeJS.ProcessEnv): void {
    this.#registry = env
  }

  async close(): Promise<void> {
    for (const child of this.#started) await this.#end(child, 'SIGTERM')
    await rm(this.directory, { recursive: true, force: true, maxRetries: 3 })
  }

  /** Runs a command. @returns its exit code, and all that it has printed */
  async run(command: string): Promise<readonly [unknown, string]> {
    const { child, output } = this.#start(command)
    return [await this.#end(child), output()]
  }

  /** Follows the blocks in their order. */
  async follow(blocks: readonly Block[]): Promise<void> {
    for (const block of blocks) {
      if (block.kind === 'file') {
        const code = block.code.replaceAll('30303', this.#port)
        await writeFile(path.join(this.cwd, block.name), code)
      }
      if (block.kind === 'commands') for (const command of block.commands) await this.#type(command)
    }
  }

  async #type({ text, lines: shown }: Command): Promise<void> {
    const folder = /^cd (\S+)$/.exec(text)?.[1]
    if (folder !== undefined) {
      this.cwd = path.join(this.cwd, folder)
      return
    }
    if (NOT_RUN.has(text)) return
    if (this.#registry === undefined && text.startsWith('npm install ')) {
      await symlink(path.join(root, 'node_modules'), path.join(this.cwd, 'node_modules'))
      return
    }
    const isLong = shown.at(-1) === '^C'
    const lines = (isLong ? shown.slice(0, -1) : shown).map((line) =>
      line.replace('30303', this.#port),
    )
    const command = this.#withPrograms(text.replaceAll('30303', this.#port))
    if (isLong || command.endsWith(' &')) {
      const { child, output } = this.#start(command.replace(/ &$/, ''))
      await vi.waitFor(() => expectLines(output(), lines), PATIENT)
      if (isLong) expect(await this.#end(child, 'SIGINT')).toBe(0)
      return
    }
    const attempt = async () => {
      const [code, output] = await this.run(command)
      expectLines(output, lines)
      // The page shows which commands fail.
      if (!lines.some((line) => /^akri: /.test(line)))
        expect([command, code, output]).toEqual([command, 0, expect.anything()])
    }
    // Another program of the page may need time for what a query shows.
    await (/ get /.test(command) ? vi.waitFor(attempt, PATIENT) : attempt())
  }

  /** What `npx` runs: the program of this directory, or of the newest version. */
  #withPrograms(command: string): string {
    const akri = 'node_modules/@akrijs/cli/dist/akri.js'
    const isInstalled = existsSync(path.join(this.cwd, akri))
    const program = isInstalled ? akri : path.join(root, 'cli/dist/akri.js')
    return command
      .replace('npx @akrijs/cli', `node ${program}`)
      .replace('npx akri-handler', 'node node_modules/@akrijs/sdk/dist/akri-handler.js')
  }

  /** Starts a command in a process group of its own. @returns also all that it has printed */
  #start(command: string): { readonly child: ChildProcess; readonly output: () => string } {
    const env = Object.entries(this.#registry ?? process.env).filter(
      ([name]) => !/^(AKRI_|POD_IP|LOG_)/.test(name),
    )
    const child = spawn('bash', ['-c', command], {
      cwd: this.cwd,
      detached: true,
      env: {
        ...Object.fromEntries(env),
        PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`,
      },
    })
    this.#started.add(child)
    let printed = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (part) => {
        printed += String(part)
      })
    return { child, output: () => printed }
  }

  /** @returns the exit code; the signal if that ended the command */
  async #end(child: ChildProcess, signal?: NodeJS.Signals): Promise<unknown> {
    if (child.exitCode === null && child.signalCode === null) {
      const closed = once(child, 'close')
      if (signal !== undefined && child.pid !== undefined) process.kill(-child.pid, signal)
      await closed
    }
    this.#started.delete(child)
    return child.exitCode ?? child.signalCode
  }
}

/** A port that no program uses now. */
async function freePort(): Promise<number> {
  const socket = createSocket('udp4')
  await once(socket.bind(0), 'listening')
  const { port } = socket.address()
  socket.close()
  return port
}

/** Expects each line of the page in an output; `…` stands for any text. */
function expectLines(output: string, lines: readonly string[]): void {
  const text = output.replace(/[ \t]+$/gm, '')
  for (const line of lines) {
    const parts = line.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    expect(text).toMatch(new RegExp(`^${parts.join('.*')}$`, 'm'))
  }
}
