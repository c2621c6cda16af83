import { existsSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'
import { isAlive } from './support/processes.js'

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

const write = (...descriptions: readonly string[]) =>
  akri.write(
    'lab.yaml',
    `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: lab }
spec:
  discoveryHandler: { name: debugEcho, discoveryDetails: '${JSON.stringify({ descriptions })}' }
`,
  )
const start = (file: string) =>
  akri.start(
    '-f',
    file,
    '--isolated',
    '--handler',
    '@akrijs/handler-debug-echo,@akrijs/handler-udev',
  )
const found = async () => (await akri.instances()).map(({ metadata }) => metadata.name)
const sockets = () =>
  ['debugEcho', 'udev']
    .map((name) => path.join(akri.state, 'isolated', `${name}.sock`))
    .filter(existsSync)

describe('akri run --isolated', () => {
  it('leaves no handler after a kill, and starts new handlers after a restart', async () => {
    start(await write('foo0'))
    await eventually(async () => expect(await found()).toEqual(['lab-8120fe']))
    const first = akri.handlers
    expect(first).toHaveLength(2)
    await akri.stop('SIGKILL')
    await eventually(() => expect(first.filter(isAlive)).toEqual([]))
    expect(sockets()).toEqual([])

    const begun = akri.output.length
    start(await write('foo0', 'foo1'))
    await eventually(async () => expect(await found()).toEqual(['lab-8120fe', 'lab-a19705']))
    // The agent says so, and then the handler.
    const registered = () => akri.output.slice(begun).match(/ handler registered /g)
    await eventually(() => expect(registered()).toHaveLength(4))
    expect(akri.handlers).toHaveLength(2)
    const second = akri.handlers
    const before = akri.output.length
    expect(await akri.stop('SIGTERM')).toBe(0)
    expect(second.filter(isAlive)).toEqual([])
    expect(sockets()).toEqual([])
    // It ends in order while its handlers work.
    expect(akri.output.slice(before)).toContain('agent stopped')
    expect(akri.output.slice(before)).not.toMatch(/ (warn|error) /)
  })

  it('runs a handler from a file, and has its lines, the last also at its end', async () => {
    await akri.writeHandler(`
      if (process.argv[1].endsWith('akri.js')) throw new Error('misplaced')
      context.log.info({ bus: 7 }, 'bus opened')
      context.log.debug({}, 'a detail')
      console.log('from the console')
      yield [{ id: 'it' }]
      process.exit(5)`)
    await akri.write('mine/broken.mjs', 'throw new Error("no bus")')
    const file = await akri.write(
      'mine.yaml',
      'apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: lab }\n' +
        'spec: { discoveryHandler: { name: mine } }\n',
    )
    const modules = ['mine.mjs', 'broken.mjs'].map((name) =>
      path.join(akri.directory, 'mine', name),
    )
    akri.start('-f', file, '--isolated', '--handler', modules.join(','))
    await eventually(() => expect(akri.output).toMatch(/isolated handler ended/))
    expect(akri.output).toMatch(/ info +bus opened handler=mine bus=7\n/)
    expect(akri.output).toMatch(
      / info +text on standard output handler=mine text="from the console"\n/,
    )
    expect(akri.output).not.toMatch(/a detail/)
    expect(akri.output).toMatch(
      / warn +isolated handler ended .* reason="it exited with code 5" lastLines=.*console/,
    )
    // The failure of a module concerns no other.
    expect(akri.output).toMatch(/handler not loaded .*broken\.mjs cannot be loaded: no bus/)
    await eventually(async () => expect(await found()).toHaveLength(1))
  })

  it('leaves no handler that was starting when it was killed', async () => {
    const file = await write('foo0')
    for (const reached of [() => akri.handlers.length > 0, () => sockets().length > 0]) {
      start(file)
      await vi.waitFor(() => expect(reached()).toBe(true), { timeout: 120_000, interval: 10 })
      const all = akri.handlers
      await akri.stop('SIGKILL')
      await eventually(() => expect(all.filter(isAlive)).toEqual([]))
    }
  })
})
