import { existsSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'
import { isAlive } from './support/processes.js'

const akri = AkriProgram.ofEachTest()

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
})
