import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'

// Each program runs in a network namespace of its own, whose network no device is on.

const works = (...command: readonly string[]) =>
  spawnSync(command[0] ?? '', command.slice(1)).status === 0
const missing = works('unshare', '--net', '--mount', 'ip', 'link')
  ? ''
  : ' (needs root and iproute2)'
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

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

/** Starts a program in a network of its own. The shell becomes the program. */
const inNetwork = (setup: string, ...command: readonly string[]) =>
  ['--net', '--mount', 'sh', '-ec', `${SYSFS}\n${setup}\nexec "$@"`, 'sh', ...command] as const

function discover(setup: string, handler: string, details: string, ...more: readonly string[]) {
  const program = path.join(root, 'cli/dist/akri.js')
  const args = ['discover', handler, '--details-text', details, ...more]
  const { stdout, status } = spawnSync(
    'unshare',
    inNetwork(setup, process.execPath, program, ...args),
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
  )
  expect(status).toBe(0)
  return stdout
}

describe.skipIf(missing !== '')(`where no device is${missing}`, () => {
  const cases: readonly [string, string, readonly [string, string], readonly string[]][] = [
    ['onvif on a silent network', ETH0, ONVIF, silent(PROBES, 1)],
    ['opcua on a silent network', ETH0, MDNS, silent(QUERIES, 3.5)],
    ['onvif without an interface', '', ONVIF, [`no interface for ${PROBES}: ${UNPLUGGED}`]],
    ['opcua without an interface', '', MDNS, [`no interface for ${QUERIES}: ${UNPLUGGED}`]],
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
    [
      'opcua behind a firewall',
      FIREWALL,
      MDNS,
      [`${QUERIES} not sent from eth0 (10.77.0.1): ${REFUSED}`],
    ],
  ]
  for (const [name, setup, [handler, details], remarks] of cases) {
    const lacksFirewall = setup === FIREWALL && !hasFirewall
    const needs = lacksFirewall ? ' (needs iptables)' : ''
    it.skipIf(lacksFirewall)(`akri discover tells why: ${name}${needs}`, () => {
      const json = JSON.parse(discover(setup, handler, details, '--json'))
      expect(json).toEqual({ devices: [], leftOut: [], problems: [], remarks })
    })
  }

  it('akri discover opcua has each discovery URL with its reason', () => {
    const urls = [
      'opc.tcp://127.0.0.1:4840/',
      'opc.tcp://10.77.9.9:4840/',
      'opc.tcp://plc.invalid:1/',
    ]
    const details = JSON.stringify({ opcuaDiscoveryMethod: { standard: { discoveryUrls: urls } } })
    const { leftOut } = JSON.parse(discover('ip link set lo up', 'opcua', details, '--json'))
    expect(leftOut).toEqual([
      {
        id: urls[0],
        reason: 'connection refused',
        detail: expect.stringContaining('ECONNREFUSED'),
      },
      { id: urls[1], reason: 'no route to the address', detail: expect.any(String) },
      { id: urls[2], reason: 'host name does not resolve', detail: expect.any(String) },
    ])
  })

  it.each([
    ['in the agent', []],
    ['in a process of its own', ['--isolated']],
  ])(
    'the condition tells why, with handlers %s',
    async (_where, more) => {
      const file = await akri.write(
        'all.yaml',
        [ONVIF, MDNS]
          .map(
            ([name, details]) => `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: ${name} }
spec: { discoveryHandler: { name: ${name}, discoveryDetails: "${details}" } }
`,
          )
          .join('---\n'),
      )
      const handlers = '@akrijs/handler-onvif,@akrijs/handler-opcua'
      const command = akri.command('-f', file, '--handler', handlers, '--plain', ...more)
      const agent = spawn('unshare', inNetwork(ETH0, ...command), { stdio: 'ignore' })
      try {
        const reasons = [silent(PROBES, 1), silent(QUERIES, 3.5)].map((texts) =>
          ['the handler saw none', ...texts].join('; '),
        )
        await eventually(async () => {
          const served = JSON.stringify(await akri.configurations())
          for (const reason of reasons) expect(served).toContain(reason)
        })
        const shown = await akri.ask('get', 'configurations')
        for (const reason of reasons) expect(shown).toContain(`Ready: 0 devices; ${reason}`)
      } finally {
        agent.kill()
        if (agent.exitCode === null && agent.signalCode === null) await once(agent, 'exit')
      }
    },
    180_000,
  )
})
