import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'

// A real udevd in a network of its own, and the program in another network, as in a Pod.

const works = (...command: readonly string[]) =>
  spawnSync(command[0] ?? '', command.slice(1)).status === 0
const missing = [
  ...(works('unshare', '--mount', '--net', 'true') ? [] : ['root']),
  ...(existsSync('/lib/systemd/systemd-udevd') ? [] : ['the Debian package udev']),
]
const title = missing.length > 0 ? ` (needs ${missing.join(', ')})` : ''

const UDEVD = `
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
/lib/systemd/systemd-udevd >/dev/null 2>&1 &
while [ ! -S /run/udev/control ]; do sleep 0.05; done`
const DEAF = 'events of udevd do not reach this network namespace, reading its database'

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

/** Runs the program beside udevd. @returns what it logs, and the condition */
async function observe(inNetwork: string, options: readonly string[]) {
  const file = await akri.write(
    'nulls.yaml',
    `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: nulls }
spec: { discoveryHandler: { name: udev, discoveryDetails: 'udevRules: [KERNEL=="null"]' } }
`,
  )
  const handler = ['--handler', '@akrijs/handler-udev']
  const command = akri.command('-f', file, ...handler, '--plain', '--log-level', 'info', ...options)
  const namespaces = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc']
  const script = `${UDEVD}\nexec ${inNetwork} "$@"`
  const child = spawn('unshare', [...namespaces, 'sh', '-ec', script, 'sh', ...command], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let logged = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      logged += String(chunk)
    })
  try {
    await eventually(async () =>
      expect(JSON.stringify(await akri.configurations())).toContain('the handler tells of changes'),
    )
    const described = await akri.ask('describe', 'configuration', 'nulls')
    const condition = /^.*the handler tells of changes.*$/m.exec(described)?.[0]
    return { logged, condition }
  } finally {
    // unshare ignores other signals. All processes of its namespace end with it.
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
}

describe.skipIf(missing.length > 0).each([
  ['in the agent', []],
  ['in a process of its own', ['--isolated']],
])(`the handler udev %s beside udevd${title}`, (_where, options) => {
  it('says in the log and in the condition that it does not hear udevd', async () => {
    const { logged, condition } = await observe('unshare --net', options)
    expect(logged).toContain(DEAF)
    expect(condition).toContain(`the handler tells of changes; ${DEAF}`)
  }, 180_000)

  it('says nothing of the kind in the network of udevd', async () => {
    const { logged, condition } = await observe('', options)
    expect(`${logged}${condition}`).not.toContain('events of udevd')
  }, 180_000)
})
