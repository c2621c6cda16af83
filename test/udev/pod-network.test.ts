import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { Guest } from './guest.js'

// A real udevd with links of its own network, and beside it the network of a Pod, whose links have
// the same numbers.

const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0
const missing = [
  ...(has('unshare', '--mount', '--net', 'true') ? [] : ['root']),
  ...(existsSync('/lib/systemd/systemd-udevd') ? [] : ['the Debian package udev']),
  ...(has('ip', 'link') ? [] : ['the Debian package iproute2']),
]

const UDEVD = `
set -e
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
/lib/systemd/systemd-udevd >/dev/null 2>&1 &
while [ ! -S /run/udev/control ]; do sleep 0.05; done
ip link add lan1 type veth peer name lan2
while ! grep -qs ID_NET_DRIVER /run/udev/data/n2 || ! grep -qs ID_NET_DRIVER /run/udev/data/n3
do sleep 0.05; done
`
const POD = `
mount -t sysfs sysfs /sys
ip link add eth0 type veth peer name eth1
ip link add "$(printf "lan\\377")" type veth peer name "$(printf "l\\303\\244n")"
`

const WITH_PROPERTIES = 'SUBSYSTEM=="net", ENV{ID_NET_DRIVER}=="veth"'

async function links(rule: string, inPod: boolean): Promise<readonly string[]> {
  const file = path.join(import.meta.dirname, 'guest-program.mjs')
  const guest = `exec "${process.execPath}" "${file}"`
  const script = inPod ? `${UDEVD}exec unshare --mount --net sh -c '${POD}${guest}'` : UDEVD + guest
  const namespaces = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc']
  const child = spawn('unshare', [...namespaces, 'sh', '-c', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const program = new Guest(child.stdout, child.stdin)
  try {
    await program.ready(AbortSignal.timeout(60_000))
    const all = await program.watch({ udevRules: ['SUBSYSTEM=="net", ENV{IFINDEX}=="[23]"'] })
    // udevd also gets the events of other devices of the machine. While it has some to process,
    // links without a record wait.
    await all.until('both links', ({ devices }) => devices.length === 2)
    return (await program.watch({ udevRules: [rule] })).ids
  } finally {
    program.close()
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
}

describeUnless(missing, 'links of the network', () => {
  it('have properties of udevd in the network of udevd', async () => {
    expect(await links(WITH_PROPERTIES, false)).toEqual([
      '/devices/virtual/net/lan1',
      '/devices/virtual/net/lan2',
    ])
  })

  it('have no properties of other links in the network of a Pod', async () => {
    expect(await links(WITH_PROPERTIES, true)).toEqual([])
  })

  it('are found by names that are not UTF-8', async () => {
    expect(await links('SUBSYSTEM=="net", KERNEL=="l?*n|lan?", ATTR{mtu}=="1500"', true)).toEqual([
      '/devices/virtual/net/lan\\xff',
      '/devices/virtual/net/län',
    ])
  })
})
