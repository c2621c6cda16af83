import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { messageOf } from '@akrijs/sdk'
import { afterEach, beforeAll, beforeEach } from 'vitest'
import { freePort } from '../../../test/support/free-port.js'
import { endProcess, untilPrinted } from '../../../test/support/peer-process.js'

const run = promisify(execFile)
const BUILT = path.resolve(import.meta.dirname, '../../../node_modules/.cache/akri-open62541')

/** The packages for the build of open62541. */
export const missingForOpen62541 = ['gcc', 'apt-get', 'dpkg'].filter(
  (command) => spawnSync(command, ['--version']).status !== 0,
)

export interface Open62541Server {
  /** `opc.tcp://127.0.0.1:port`, or with the address of the option `-a` */
  readonly url: string
  readonly port: number
  readonly child: ChildProcess
}

/** Servers and a client of open62541, each in its own process. */
export class Open62541 {
  /** The program of a server, once it is built: see open62541/server.c. */
  static readonly server = path.join(BUILT, 'bin/server')
  readonly #children: ChildProcess[] = []

  /** Builds the programs if necessary. @throws Error if Debian's mirror is not available */
  static async build(): Promise<void> {
    await run(path.join(import.meta.dirname, 'open62541/build.sh'), [BUILT])
  }

  /** @param options options of open62541/server.c, except port and name */
  async start(name: string, ...options: string[]): Promise<Open62541Server> {
    const port = await freePort()
    const args = ['-p', String(port), '-n', name, ...options]
    const child = spawn(Open62541.server, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#children.push(child)
    await untilPrinted(child, options.includes('-r') ? /registered Good/ : /listening/)
    const address = options[options.indexOf('-a') + 1]
    const host = options.includes('-a') ? address : '127.0.0.1'
    return { url: `opc.tcp://${host}:${port}`, port, child }
  }

  /** Ends a server in an orderly way. */
  async end({ child }: Pick<Open62541Server, 'child'>): Promise<void> {
    await endProcess(child, 'SIGTERM')
  }

  /** The output of the client for a server: a line for each application and endpoint. */
  async find(url: string): Promise<string[]> {
    const { stdout } = await run(path.join(BUILT, 'bin/find'), [url])
    return stdout
      .split('\n')
      .filter((line) => /^(FindServers|GetEndpoints|application|endpoint) /.test(line))
  }

  /** Ends all servers. */
  async close(): Promise<void> {
    for (const child of this.#children.splice(0)) await this.end({ child })
  }
}

/**
 * For the tests of a block: builds the programs before the first test, and ends them after each.
 * Skips the tests if a build is not possible.
 */
export function useOpen62541(): Open62541 {
  const peers = new Open62541()
  let failure: string | undefined
  beforeAll(async () => {
    await Open62541.build().catch((error: unknown) => {
      failure = messageOf(error)
    })
  }, 180_000)
  beforeEach((context) => {
    if (failure !== undefined) context.skip(`open62541 cannot be had: ${failure}`)
  })
  afterEach(() => peers.close())
  return peers
}
