import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'

const root = path.join(import.meta.dirname, '..')

/** A line of the broker. */
export interface Line {
  readonly time: string
  readonly nodeId: string
  readonly status: string
  readonly type: string
  readonly value: unknown
  readonly dimensions?: readonly number[]
}

/** The program, built for the tests of a file. */
export class BuiltBroker {
  /** For the files of the tests. */
  readonly directory: string
  readonly #program: string
  readonly #children = new Set<ChildProcess>()

  private constructor(directory: string) {
    this.directory = directory
    this.#program = path.join(directory, 'main.mjs')
  }

  static async build(): Promise<BuiltBroker> {
    // A directory from which the program finds its packages.
    mkdirSync(path.join(root, 'node_modules'), { recursive: true })
    const directory = mkdtempSync(path.join(root, 'node_modules/.test-'))
    await build({
      entryPoints: [path.join(root, 'src/main.ts')],
      bundle: true,
      splitting: true,
      packages: 'external',
      platform: 'node',
      format: 'esm',
      outdir: directory,
      outExtension: { '.js': '.mjs' },
    })
    return new BuiltBroker(directory)
  }

  /** Starts a broker. @param wrapper a command that runs the program, such as `ip netns exec` */
  run(
    environment: Readonly<Record<string, string>>,
    wrapper: readonly string[] = [],
  ): RunningBroker {
    const info = mkdtempSync(path.join(this.directory, 'info-'))
    const env = {
      PATH: process.env.PATH,
      HOME: path.join(this.directory, 'home'),
      AKRI_BROKER_INFO_DIRECTORY: info,
      OPCUA_INTERVAL_MS: '50',
      ...environment,
    }
    const [command = '', ...args] = [...wrapper, process.execPath, this.#program]
    const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    this.#children.add(child)
    child.once('exit', () => this.#children.delete(child))
    return new RunningBroker(child, info)
  }

  /** Kills all running brokers. */
  kill(): void {
    for (const child of this.#children) child.kill('SIGKILL')
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}

export class RunningBroker {
  /** All that it has printed. */
  readonly printed = { out: '', err: '' }
  readonly #child: ChildProcess
  readonly #info: string

  constructor(child: ChildProcess, info: string) {
    this.#child = child
    this.#info = info
    child.stdout?.on('data', (data: Buffer) => {
      this.printed.out += data.toString()
    })
    child.stderr?.on('data', (data: Buffer) => {
      this.printed.err += data.toString()
    })
  }

  values(): Line[] {
    const lines = this.printed.out.split('\n').slice(0, -1)
    return lines.map((line): Line => JSON.parse(line))
  }

  /** What it reports; a missing report is empty. */
  reported(name: string): string {
    return readdirSync(this.#info).includes(name)
      ? readFileSync(path.join(this.#info, name), 'utf8')
      : ''
  }

  reports(): string[] {
    return readdirSync(this.#info).sort()
  }

  /** The number of open sockets to servers. */
  sockets(): number {
    const folder = `/proc/${this.#child.pid}/fd`
    const sockets = readdirSync(folder)
      .map((fd) => /^socket:\[(\d+)\]$/.exec(readLink(path.join(folder, fd)))?.[1])
      .filter((inode) => inode !== undefined)
    const tcp = readFileSync(`/proc/${this.#child.pid}/net/tcp`, 'utf8')
    return sockets.filter((inode) => new RegExp(` ${inode} `).test(tcp)).length
  }

  /** Resolves at its end. @returns exit code and signal */
  async end(signal?: NodeJS.Signals): Promise<unknown[]> {
    const { exitCode, signalCode } = this.#child
    if (exitCode !== null || signalCode !== null) return [exitCode, signalCode]
    const exit = once(this.#child, 'exit')
    if (signal !== undefined) this.#child.kill(signal)
    return await exit
  }
}

/** A descriptor can be closed between two looks. */
function readLink(file: string): string {
  try {
    return readlinkSync(file)
  } catch {
    return ''
  }
}
