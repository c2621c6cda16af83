import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

const linesWith = (message: string) =>
  akri.output.split('\n').filter((line) => line.includes(message))

describe.each([
  ['in the agent', []],
  ['in a process of its own', ['--isolated']],
])('a handler %s', (_where, options) => {
  it('tells people why devices are not offered, and which have a problem', async () => {
    const handler = await akri.writeHandler(`
      context.leaveOut('10.0.0.1', 'HTTP status 401', 'realm of the first')
      context.leaveOut('10.0.0.3', 'HTTP status 401')
      if (context.details.found) {
        context.reportProblem('10.0.0.2', 'credential refused')
        yield [{ id: '10.0.0.2' }]
      } else yield []`)
    const configuration = (name: string, found: boolean) =>
      akri.write(
        `${name}.yaml`,
        `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: ${name} }
spec: { discoveryHandler: { name: mine, discoveryDetails: '{ found: ${found} }' } }
`,
      )
    const files = [await configuration('none', false), await configuration('one', true)]
    const all = files.flatMap((file) => ['-f', file])
    akri.start(...all, '--handler', handler, '--log-level', 'debug', ...options)
    const leftOut = '2 not offered: 2 x HTTP status 401 (such as 10.0.0.1)'
    await eventually(async () => {
      const served = JSON.stringify(await akri.configurations())
      expect(served).toContain(`0 devices; ${leftOut}`)
      expect(served).toContain(`(such as 10.0.0.2); ${leftOut}`)
    })
    const shown = await akri.ask('get', 'configurations')
    expect(shown).toContain(`Ready: 0 devices; ${leftOut}`)
    expect(shown).toContain(
      'DeviceProblems: 1 devices; 1 with a problem: 1 x credential refused ' +
        `(such as 10.0.0.2); ${leftOut}`,
    )
    // The log has each device and its detail, which the condition has not.
    await eventually(() => {
      const [leftOutLine] = linesWith('devices left out')
      expect(leftOutLine).toMatch(/debug .*10\.0\.0\.1.*HTTP status 401.*realm of the first/)
      expect(leftOutLine).toMatch(/10\.0\.0\.3/)
      expect(linesWith('device problems')[0]).toMatch(/debug .*10\.0\.0\.2.*credential refused/)
    })
    const instance = await eventually(async () => {
      const [found] = await akri.instances()
      expect(found?.status?.conditions).toContainEqual(
        expect.objectContaining({ reason: 'ReportedByHandler' }),
      )
      return found
    })
    const described = () => akri.ask('describe', 'instance', instance?.metadata.name ?? '')
    const text = await eventually(async () => {
      const shown = await described()
      expect(shown).toMatch(/Warning +DeviceProblem .*credential refused/)
      return shown
    })
    expect(text).toMatch(/^DeviceProblem +True +ReportedByHandler .*refused$/m)
  })
})
