import {
  type ChildProcess,
  execFile,
  type SpawnSyncReturns,
  spawn,
  spawnSync,
} from 'node:child_process'
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Instance } from '@akrijs/api'
import { afterEach, beforeEach } from 'vitest'
import { askAgent } from '../../../cli/src/control/control-client.js'
import { commandOf, processesOf } from './processes.js'

export const root = path.join(import.meta.dirname, '../../..')
const akri = path.join(root, 'cli/dist/akri.js')
const run = promisify(execFile)

/** The program `akri` with a new state directory. */
export class AkriProgram {
  /** The directory of the files of the test. */
  directory = ''
  #agent: ChildProcess | undefined
  #output = ''

  /** A program with directories of its own in each test of a file or a suite. */
  static ofEachTest(): AkriProgram {
    const program = new AkriProgram()
    beforeEach(async () => {
      program.directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
      program.#output = ''
    })
    // Not by SIGKILL: the program has to end its brokers.
    afterEach(() => program.stop('SIGTERM'))
    return program
  }

  get state(): string {
    return path.join(this.directory, 's')
  }

  /** The output of all runs of `akri run`. */
  get output(): string {
    return this.#output
  }

  get pid(): number | undefined {
    return this.#agent?.pid
  }

  /** The processes of isolated handlers. */
  get handlers(): number[] {
    const all = this.pid === undefined ? [] : processesOf(this.pid)
    return all.filter((pid) => commandOf(pid)[1]?.endsWith('/akri-handler.js'))
  }

  /** `akri run` with further arguments. */
  start(...args: readonly string[]): void {
    this.#start(akri, 'run', ...args)
  }

  /** `npm start -- --demo`. */
  startDemo(): void {
    this.#start(path.join(root, 'scripts/start.mjs'), '--demo')
  }

  /** `akri run` as a command line, for another program. */
  command(...args: readonly string[]): string[] {
    return [process.execPath, akri, 'run', ...args, '--state-dir', this.state, '--node', 'node-a']
  }

  #start(...command: readonly string[]): void {
    const all = [...command, '--plain', '--state-dir', this.state, '--node', 'node-a']
    const child = spawn(process.execPath, all, { stdio: ['ignore', 'pipe', 'pipe'] })
    this.#agent = child
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        this.#output += String(chunk)
      })
  }

  /** Resolves when the program has ended. @returns its exit code; null if a signal ended it */
  async stop(signal: NodeJS.Signals): Promise<number | null> {
    this.#agent?.kill(signal)
    return this.ended()
  }

  /** Resolves when `akri run` has ended. @returns its exit code; null if a signal ended it */
  async ended(): Promise<number | null> {
    const child = this.#agent
    this.#agent = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null)
      return child?.exitCode ?? null
    return new Promise((resolve) => child.once('exit', (code) => resolve(code)))
  }

  async write(name: string, text: string): Promise<string> {
    const file = path.join(this.directory, name)
    await writeFile(file, text)
    return file
  }

  /** Writes the package of a handler `mine`. @returns its path */
  async writeHandler(discover: string): Promise<string> {
    await mkdir(path.join(this.directory, 'mine'))
    const manifest = {
      name: 'mine',
      exports: './mine.mjs',
      akri: { contract: 1, handlers: [{ name: 'mine' }] },
    }
    await this.write('mine/package.json', JSON.stringify(manifest))
    const sdk = pathToFileURL(path.join(root, 'sdk/dist/index.js')).href
    await this.write(
      'mine/mine.mjs',
      `import { defineDiscoveryHandler } from ${JSON.stringify(sdk)}
      export default defineDiscoveryHandler({
        name: 'mine',
        shared: true,
        details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
        async *discover(context) { ${discover} },
      })`,
    )
    return path.join(this.directory, 'mine')
  }

  /** The standard output of another `akri` command, which asks the running agent. */
  async ask(...args: readonly string[]): Promise<string> {
    return (await run(process.execPath, [akri, ...args, '--state-dir', this.state])).stdout
  }

  /** What `akri get` asks for: tests wait for it, and a program each time would be slow. */
  async instances(): Promise<Instance[]> {
    const list = await askAgent(path.join(this.state, 'control.sock'), '/apis/akri.sh/v0/instances')
    return (list as { items: Instance[] }).items
  }

  /** The processes of brokers. */
  async brokers(): Promise<number[]> {
    const text = await readFile(path.join(this.state, 'brokers.json'), 'utf8')
    return JSON.parse(text).map(({ pid }: { readonly pid: number }) => pid)
  }

  /** Runs another `akri` command. @param environment further variables */
  run(
    args: readonly string[],
    input = '',
    environment: NodeJS.ProcessEnv = {},
  ): SpawnSyncReturns<string> {
    const env = { ...process.env, AKRI_STATE_DIRECTORY: this.state, ...environment }
    return spawnSync(process.execPath, [akri, ...args], {
      encoding: 'utf8',
      env,
      input,
      cwd: this.directory,
    })
  }
}
