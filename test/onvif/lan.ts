import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/**
 * A cable from a network to a host: the interface of the host, and its addresses, such as
 * `10.77.0.1/24`.
 */
export interface Port {
  readonly host: string
  readonly interface?: string
  /** @default 'lan' */
  readonly network?: string
  readonly addresses: readonly string[]
}

let count = 0

/** The requirements of a private network that this machine does not meet. */
export function missingForLan(): string[] {
  if (process.getuid?.() !== 0) return ['root']
  if (spawnSync('ip', ['-Version']).status !== 0) return ['the Debian package iproute2']
  const name = `akri-${process.pid}-probe`
  if (spawnSync('ip', ['netns', 'add', name]).status !== 0) return ['network namespaces']
  spawnSync('ip', ['netns', 'del', name])
  return []
}

/**
 * Hosts and networks made of network namespaces, bridges and veth pairs. They have no connection to
 * the networks of the machine.
 */
export class Lan {
  readonly #prefix = `akri-${process.pid}-${++count}`
  readonly #hosts = new Set<string>()
  readonly #networks = new Set<string>()
  /** Of `host interface`. */
  readonly #cables = new Map<string, { readonly port: string; readonly network: string }>()
  #ports = 0

  /** The network namespace of a host. */
  namespace(host: string): string {
    return `${this.#prefix}-${host}`
  }

  async plug({ host, interface: name = 'eth0', network = 'lan', addresses }: Port): Promise<void> {
    await this.#addHost(host)
    await this.#addNetwork(network)
    const [here, there] = [this.namespace(host), this.namespace(SWITCH)]
    const port = `p${++this.#ports}`
    this.#cables.set(`${host} ${name}`, { port, network })
    await ip(`-n ${there} link add ${port} type veth peer name ${name} netns ${here}`)
    await ip(`-n ${there} link set ${port} master ${network} up`)
    // An interface that is unplugged and plugged again keeps its hardware address.
    const mac = createHash('sha256')
      .update(`${host} ${name}`)
      .digest('hex')
      .slice(0, 10)
      .replace(/../g, ':$&')
    await ip(`-n ${here} link set ${name} address 02${mac}`)
    // One batch, because a host may have hundreds of addresses. `nodad` skips a second of duplicate
    // address detection.
    const lines = addresses.map(
      (address) => `addr add ${address} dev ${name}${address.includes(':') ? ' nodad' : ''}`,
    )
    await batch(here, [...lines, `link set ${name} up`])
  }

  async unplug(host: string, name = 'eth0'): Promise<void> {
    await ip(`-n ${this.namespace(host)} link del ${name}`)
  }

  /**
   * Makes the switch drop all packets from and to a host, or forward them again. The links stay up,
   * so that no end gets an error.
   */
  async cut(host: string, isCut: boolean, name = 'eth0'): Promise<void> {
    const cable = this.#cables.get(`${host} ${name}`)
    if (cable === undefined) throw new TypeError(`${host} has no interface ${name}`)
    const { port, network } = cable
    const master = isCut ? 'nomaster' : `master ${network}`
    await ip(`-n ${this.namespace(SWITCH)} link set ${port} ${master}`)
  }

  /** Drops this percentage of the IPv4 packets to a host. */
  async lose(host: string, percent: number): Promise<void> {
    const share = percent / 100
    const rule = `iptables -A INPUT -m statistic --mode random --probability ${share} -j DROP`
    await execute('ip', ['netns', 'exec', this.namespace(host), ...rule.split(' ')])
  }

  async addAddress(host: string, address: string, name = 'eth0'): Promise<void> {
    await ip(`-n ${this.namespace(host)} addr add ${address} dev ${name}`)
  }

  /** Removes all IPv4 addresses of an interface. */
  async removeAddresses(host: string, name = 'eth0'): Promise<void> {
    await ip(`-n ${this.namespace(host)} -4 addr flush dev ${name}`)
  }

  /** The names of the interfaces that have joined an IPv4 group. */
  async listening(host: string, group: string): Promise<string[]> {
    const { stdout } = await execute('ip', [
      '-n',
      this.namespace(host),
      '-json',
      'maddress',
      'show',
    ])
    const all: {
      readonly ifname: string
      readonly maddr: readonly { readonly address?: string }[]
    }[] = JSON.parse(stdout)
    return all
      .filter(({ maddr }) => maddr.some(({ address }) => address === group))
      .map(({ ifname }) => ifname)
  }

  /** The link-local address of an interface, with its zone. */
  async linkLocal(host: string, name = 'eth0'): Promise<string> {
    const { stdout } = await execute('ip', [
      '-n',
      this.namespace(host),
      '-6',
      '-o',
      'addr',
      'show',
      'dev',
      name,
      'scope',
      'link',
    ])
    return `${/inet6 (fe80:[0-9a-f:]+)/.exec(stdout)?.[1]}%${name}`
  }

  async down(): Promise<void> {
    for (const host of this.#hosts) await ip(`netns del ${this.namespace(host)}`)
    this.#hosts.clear()
    this.#networks.clear()
  }

  async #addHost(host: string): Promise<void> {
    if (this.#hosts.has(host)) return
    this.#hosts.add(host)
    const namespace = this.namespace(host)
    await ip(`netns add ${namespace}`)
    await ip(`-n ${namespace} link set lo up`)
    const noDad =
      'echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad; ' +
      'echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad'
    await execute('ip', ['netns', 'exec', namespace, 'sh', '-c', noDad])
  }

  async #addNetwork(network: string): Promise<void> {
    await this.#addHost(SWITCH)
    if (this.#networks.has(network)) return
    this.#networks.add(network)
    const namespace = this.namespace(SWITCH)
    // A bridge with snooping would need a multicast querier.
    await ip(`-n ${namespace} link add ${network} type bridge mcast_snooping 0`)
    await ip(`-n ${namespace} link set ${network} up`)
  }
}

const SWITCH = 'switch'

async function ip(command: string): Promise<void> {
  await execute('ip', command.split(' '))
}

async function batch(namespace: string, lines: readonly string[]): Promise<void> {
  const run = execute('ip', ['-n', namespace, '-batch', '-'])
  run.child.stdin?.end(`${lines.join('\n')}\n`)
  await run
}
