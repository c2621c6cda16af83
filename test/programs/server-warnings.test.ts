import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { FakeApiServer } from '@akrijs/kube/testing'
import { systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { HostProgram } from '../e2e/support/host-program.js'
import { eventually } from '../support/eventually.js'
import { environmentWith } from './environment.js'

const SENTENCE = 'akri.sh/v0 Configuration is old here'
const AKRI = path.join(import.meta.dirname, '../../cli/dist/akri.js')

describe('warnings of the API server', () => {
  const server = new FakeApiServer(systemClock)
  let env: Record<string, string>

  beforeAll(async () => {
    server.warning = SENTENCE
    env = await environmentWith((await server.listen()).href)
  })

  afterAll(() => server.close())

  function start(file: string): HostProgram {
    const program = new HostProgram(file)
    onTestFinished(async () => void (await program.stop()))
    program.launch(env)
    return program
  }

  it.each([
    'agent/dist/akri-agent.js',
    'controller/dist/akri-controller.js',
    'controller/dist/akri-cleanup.js',
    'webhook/dist/akri-webhook.js',
  ])('reach the log of %s, once', async (file) => {
    const program = start(file)
    const warnings = () =>
      program.output
        .split('\n')
        .filter((line) => line.includes(SENTENCE))
        .map((line): unknown => JSON.parse(line))
    const warning = { level: 'warn', msg: 'API server warned', text: SENTENCE }
    await eventually(() => expect(warnings()).toEqual([expect.objectContaining(warning)]))
  })

  it('reach the standard error of akri migrate, once', async () => {
    const args = [AKRI, 'migrate', 'forward', '--write']
    const { stderr } = await promisify(execFile)(process.execPath, args, {
      env: { ...process.env, ...env },
    })
    // Newer versions of Node.js warn of a module that the reader of the kubeconfig uses.
    const lines = stderr.split('\n').filter((line) => line.includes(SENTENCE))
    expect(lines).toEqual([
      expect.stringMatching(/^\S+ warn +API server warned text="akri\.sh\/v0 .* here" request=/),
    ])
  })
})
