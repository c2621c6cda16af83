import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { root } from './support/akri-program.js'

// Each program runs in a network namespace of its own, whose network no device is on.

const works = (...command: readonly string[]) =>
  spawnSync(command[0] ?? '', command.slice(1)).status === 0
const missing = works('unshare', '--net', '--mount', 'ip', 'link') ? [] : ['root', 'iproute2']
const hasFirewall = works('unshare', '--net', 'iptables', '-S')

/** Of the new network. */
const SYSFS = 'mount -t sysfs sysfs /sys'
const ETH0 = `
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link add eth0 type veth peer name far
ip address add 10.77.0.1/24 dev eth0
ip link set far up
ip link set eth0 up`
const FIREWALL = `${ETH0}\niptables -A OUTPUT -p udp -d 224.0.0.0/4 -j DROP`

const ONVIF = ['onvif', '{}'] as const
const MDNS = ['opcua', 'opcuaDiscoveryMethod: { mdns: {} }'] as const
const PROBES = 'WS-Discovery Probes (UDP port 3702)'
const QUERIES = 'mDNS queries for _opcua-tcp (UDP port 5353)'
const SEPARATE =
  'the handler has a network of its own, as in a Pod without hostNetwork: multicast of the ' +
  'network of the node does not arrive in it'
const UNPLUGGED = 'lo is the loopback interface'
const REFUSED = 'EPERM, a firewall of this machine refuses it'

const silent = (messages: string, seconds: number) => [
  `no answer in ${seconds} s to ${messages} from eth0 (10.77.0.1)`,
  SEPARATE,
]

function discover(setup: string, handler: string, details: string) {
  const program = path.join(root, 'cli/dist/akri.js')
  const args = ['discover', handler, '--details-text', details, '--json']
  const command = [process.execPath, program, ...args]
  const { stdout, status } = spawnSync(
    'unshare',
    ['--net', '--mount', 'sh', '-ec', `${SYSFS}\n${setup}\nexec "$@"`, 'sh', ...command],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
  )
  expect(status).toBe(0)
  return stdout
}

describeUnless(missing, 'where no device is', () => {
  const cases: readonly [string, string, readonly [string, string], readonly string[]][] = [
    ['onvif on a silent network', ETH0, ONVIF, silent(PROBES, 1)],
    ['opcua on a silent network', ETH0, MDNS, silent(QUERIES, 3.5)],
    ['onvif without an interface', '', ONVIF, [`no interface for ${PROBES}: ${UNPLUGGED}`]],
    [
      'onvif with an interface that is down',
      'ip link add eth0 type veth peer name far',
      ['onvif', 'interfaces: [eth0, eth1]'],
      [`no interface for ${PROBES}: eth0 is down, eth1 does not exist`],
    ],
    [
      'onvif with an interface without multicast',
      `${ETH0}\nip link set eth0 multicast off`,
      ONVIF,
      [`no answer in 1 s to ${PROBES} from eth0 (10.77.0.1) without multicast`, SEPARATE],
    ],
    [
      'onvif with an address that no route leads to',
      ETH0,
      ['onvif', 'probeAddresses: [192.0.2.7]\ninterfaces: [none]'],
      [`${PROBES} not sent to 192.0.2.7: ENETUNREACH, there is no route`],
    ],
    [
      'onvif behind a firewall',
      FIREWALL,
      ONVIF,
      [`${PROBES} not sent from eth0 (10.77.0.1): ${REFUSED}`],
    ],
  ]
  for (const [name, setup, [handler, details], remarks] of cases) {
    const lacksFirewall = setup === FIREWALL && !hasFirewall
    const needs = lacksFirewall ? ' (needs iptables)' : ''
    it.skipIf(lacksFirewall)(`akri discover tells why: ${name}${needs}`, () => {
      const json = JSON.parse(discover(setup, handler, details))
      expect(json).toEqual({ devices: [], leftOut: [], problems: [], remarks })
    })
  }
})
