import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { systemClock } from '@akrijs/runtime'
import { workDirectory } from './node-spaces.js'
import { eventually, type World } from './world.js'

/** With the processors of both in use by others, it takes 25 s. */
const LONGEST_START_MS = 120_000

/**
 * The API server of the test cluster: a process of this machine that a test can stop, kill and
 * start again.
 */
export class ApiServer {
  readonly #pidsFile = path.join(workDirectory, 'pids')
  readonly #log = path.join(workDirectory, 'log', 'kube-apiserver.log')

  get pid(): number {
    const line = this.#lines().find((text) => text.startsWith('kube-apiserver '))
    return Number(line?.split(' ')[1])
  }

  /** Kills the API server and starts it again. Resolves when it answers. */
  async restart(world: World, awayMs = 0): Promise<void> {
    const start = this.kill()
    if (awayMs > 0) await systemClock.sleep(awayMs)
    await start(world)
  }

  /**
   * Ends the API server. @returns starts it with the same arguments, and resolves when it answers
   * @param change makes other arguments of them
   */
  kill(change = (args: readonly string[]) => args): (world: World) => Promise<void> {
    const pid = this.pid
    const [file = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      .split('\0')
      .slice(0, -1)
    process.kill(pid, 'SIGKILL')
    return (world) => this.#start(world, file, change(args))
  }

  async #start(world: World, file: string, args: readonly string[]) {
    let child = this.#spawn(file, args)
    await eventually(async () => {
      // A busy machine takes its time to end a killed process, whose port is in use until then.
      if (child.exitCode !== null || child.signalCode !== null) {
        const end = `the API server ended with ${child.exitCode ?? child.signalCode}`
        child = this.#spawn(file, args)
        throw new TypeError(`${end}: ${readFileSync(this.#log, 'utf8').slice(-1000)}`)
      }
      await world.client
        .request({ method: 'GET', path: '/readyz', timeoutMs: 2000 })
        .catch(ignoreText)
    }, LONGEST_START_MS)
  }

  #spawn(file: string, args: readonly string[]): ChildProcess {
    const log = openSync(this.#log, 'a')
    const child = spawn(file, args, { detached: true, stdio: ['ignore', log, log] })
    closeSync(log)
    child.unref()
    if (child.pid === undefined) throw new TypeError('the API server cannot be started')
    // The script that ends the cluster reads this file.
    const started = readFileSync(`/proc/${child.pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[19]
    const lines = this.#lines().map((line) =>
      line.startsWith('kube-apiserver ') ? `kube-apiserver ${child.pid} ${started}` : line,
    )
    writeFileSync(this.#pidsFile, `${lines.join('\n')}\n`)
    return child
  }

  #lines(): string[] {
    return readFileSync(this.#pidsFile, 'utf8').trim().split('\n')
  }
}

/** `/readyz` answers `ok`, which is no JSON. It is an answer all the same. */
function ignoreText(error: unknown): void {
  if (!String(error).includes('JSON')) throw error
}
