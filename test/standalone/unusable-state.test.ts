import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { root } from './support/akri-program.js'

const isRoot = process.getuid?.() === 0
/** Root needs no rights: another user stands for all others. */
const user = isRoot ? 4711 : (process.getuid?.() ?? 0)
const needsRoot = isRoot ? '' : ' (needs root)'
const akri = path.join(root, 'cli/dist/akri.js')
const run = [akri, 'run', '-f', path.join(root, 'examples/standalone'), '--plain', '--node', 'a']
const demo = [
  '-e',
  `import(${JSON.stringify(path.join(root, 'scripts/demo/demo.mjs'))})
    .then(({ startDevices }) => startDevices(process.argv.at(-1)))`,
  '--',
]

let parent: string
let state: string

beforeEach(() => {
  parent = mkdtempSync(path.join(os.tmpdir(), 'akri-'))
  chmodSync(parent, 0o755)
  state = path.join(parent, 's')
  mkdirSync(state)
  if (isRoot) chownSync(state, user, user)
})
afterEach(() => rmSync(parent, { recursive: true, force: true }))

describe.each([
  ['akri run', [...run, '--state-dir']],
  ['the demo', demo],
])('%s', (_, command) => {
  it('reports a state directory that its mode forbids to write', () => {
    chmodSync(state, 0o500)
    const line = `this user may not write ${state}/`
    expect(problemOf(asUser())).toContain(line)
    expect(problemOf(asUser())).toContain(`: run chmod -R u+rwX ${state}`)
  })

  it.skipIf(!isRoot)(`reports what another user made in it, and the remedy${needsRoot}`, () => {
    for (const name of ['kubelet', 'demo']) mkdirSync(path.join(state, name), { mode: 0o755 })
    expect(problemOf(asUser())).toMatch(
      new RegExp(
        `^akri: ${state}/(kubelet|demo) belongs to root: ` +
          `run sudo chown -R ${user}:${user} ${state}$`,
      ),
    )
  })

  it.skipIf(!isRoot)(`reports a directory that this user may not make${needsRoot}`, () => {
    state = path.join(parent, 'x/y')
    expect(problemOf(asUser())).toBe(
      `akri: this user may not write ${parent}/x: choose another directory with --state-dir`,
    )
  })

  /** Runs the command as the user. */
  function asUser(): SpawnSyncReturns<string> {
    const drop = ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups']
    const [file = '', ...args] = [...(isRoot ? drop : []), process.execPath, ...command, state]
    return spawnSync(file, args, { encoding: 'utf8', env: { ...process.env, HOME: parent } })
  }
})

/** The last line, which is the only one of a failure; there is no stack. */
function problemOf({ status, stderr }: SpawnSyncReturns<string>): string {
  expect(status).toBe(1)
  const lines = stderr.trim().split('\n')
  expect(lines.filter((line) => !/^akri: /.test(line))).toEqual([])
  return lines.at(-1) ?? ''
}
