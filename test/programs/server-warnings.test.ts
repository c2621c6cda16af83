import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { FakeApiServer } from '@akrijs/kube/testing'
import { systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { HostProgram } from '../e2e/support/host-program.js'
import { unexpectedServerWarnings } from '../e2e/support/server-warnings.js'
import { eventually } from '../support/eventually.js'

const SENTENCE = 'akri.sh/v0 Configuration is old here'
const AKRI = path.join(import.meta.dirname, '../../cli/dist/akri.js')

describe('warnings of the API server', () => {
  const server = new FakeApiServer(systemClock)
  let directory: string
  let env: Record<string, string>

  beforeAll(async () => {
    server.warning = SENTENCE
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-w-'))
    await mkdir(path.join(directory, 'p'))
    env = {
      KUBECONFIG: path.join(directory, 'kubeconfig'),
      METRICS_PORT: '0',
      AGENT_NODE_NAME: 'node-a',
      DISCOVERY_HANDLERS_DIRECTORY: path.join(directory, 'h'),
      AKRI_STATE_DIRECTORY: path.join(directory, 's'),
      KUBELET_PLUGIN_DIRECTORY: path.join(directory, 'p'),
      POD_NAMESPACE: 'akri',
      AKRI_DRAIN: '0',
      AKRI_WEBHOOK_PORT: '0',
    }
    const url = (await server.listen()).href
    const cluster = { server: url, 'insecure-skip-tls-verify': true }
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'x',
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    }
    await writeFile(path.join(directory, 'kubeconfig'), JSON.stringify(config))
  })

  afterAll(async () => {
    await server.close()
    await rm(directory, { recursive: true, force: true })
  })

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
    // The check of each test on a cluster finds them, and each once.
    expect(unexpectedServerWarnings([])).toEqual([expect.stringContaining(SENTENCE)])
    expect(unexpectedServerWarnings([])).toEqual([])
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
