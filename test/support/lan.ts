import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import { endProcess, untilPrinted } from './peer-process.js'

const run = promisify(execFile)

/** A machine of a {@link Lan}: a network namespace with a virtual cable to this one. */
export interface LanHost {
  readonly namespace: string
  /** The end of the cable on this side. */
  readonly link: string
  readonly address: string
}

/** Machines with a network each. Needs root. */
export class Lan {
  readonly #prefix: string
  readonly #hosts: LanHost[] = []
  readonly #children = new Set<ChildProcess>()

  /**
   * @param prefix the prefix of links and namespaces; at most 8 characters, different in each test
   */
  constructor(prefix: string) {
    this.#prefix = prefix
  }

  /** Adds a machine. @param subnet the third number of its network 10.193.x.0/24 */
  async addHost(subnet: number): Promise<LanHost> {
    const namespace = `${this.#prefix}n${subnet}`
    const host = { namespace, link: `${this.#prefix}l${subnet}`, address: `10.193.${subnet}.2` }
    this.#hosts.push(host)
    await run('ip', ['netns', 'add', namespace])
    await run('ip', [
      'link',
      'add',
      host.link,
      'type',
      'veth',
      'peer',
      'name',
      'eth0',
      'netns',
      namespace,
    ])
    await run('ip', ['address', 'add', `10.193.${subnet}.1/24`, 'dev', host.link])
    for (const [link, address] of [['eth0', `${host.address}/24`]] as const) {
      await run('ip', ['-n', namespace, 'address', 'add', address, 'dev', link])
      await run('ip', ['-n', namespace, 'link', 'set', link, 'up'])
    }
    await run('ip', ['-n', namespace, 'link', 'set', 'lo', 'up'])
    await run('ip', ['-n', namespace, 'route', 'add', 'default', 'dev', 'eth0'])
    await run('ip', ['link', 'set', host.link, 'up'])
    return host
  }

  async unplug(host: LanHost): Promise<void> {
    await run('ip', ['link', 'delete', host.link])
  }

  /**
   * Starts a program on a machine and waits until its output matches `ready`. It ends with the LAN.
   */
  async spawn(
    host: LanHost,
    command: string,
    args: readonly string[],
    ready: RegExp,
  ): Promise<ChildProcess> {
    const child = spawn('ip', ['netns', 'exec', host.namespace, command, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#children.add(child)
    await untilPrinted(child, ready)
    return child
  }

  /** Ends a program and waits until it has ended. */
  async kill(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.#children.delete(child)
    await endProcess(child, signal)
  }

  /** Runs a program on a machine to its end. */
  async run(host: LanHost, command: string, args: readonly string[]): Promise<void> {
    await run('ip', ['netns', 'exec', host.namespace, command, ...args])
  }

  async close(): Promise<void> {
    for (const child of this.#children) await this.kill(child, 'SIGKILL')
    for (const { namespace, link } of this.#hosts) {
      await run('ip', ['link', 'delete', link]).catch(() => undefined)
      await run('ip', ['netns', 'delete', namespace]).catch(() => undefined)
    }
  }
}
