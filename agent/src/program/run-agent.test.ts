import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { silentLogger } from '@akrijs/runtime'
import { runInContext } from '@akrijs/runtime/program'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { runAgent } from './run-agent.js'

let directory: string
let api: http.Server
/** Whether the API server answers, with no objects at all. */
let serving: boolean
/** The objects that were created. */
let posted: unknown[]
let stop: AbortController
let running: Promise<void> | undefined

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-run-'))
  serving = false
  posted = []
  stop = new AbortController()
  api = http.createServer((request, response) => {
    if (!serving) return response.writeHead(503).end()
    if (request.method === 'POST') {
      void text(request).then((body) => posted.push(JSON.parse(body)))
      return response.writeHead(201, { 'content-type': 'application/json' }).end('{}')
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    // A watch goes on, and tells of nothing.
    if (request.url?.includes('watch=')) return response.flushHeaders()
    return response.end(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'List',
        metadata: { resourceVersion: '1' },
        items: [],
      }),
    )
  })
  await once(api.listen(0, '127.0.0.1'), 'listening')
})

afterEach(async () => {
  stop.abort()
  await running
  api.closeAllConnections()
  await new Promise((resolve) => api.close(resolve))
  await rm(directory, { recursive: true, force: true })
})

async function kubeconfig(): Promise<string> {
  const file = path.join(directory, 'kubeconfig')
  const { port } = api.address() as AddressInfo
  const cluster = {
    name: 'c',
    cluster: { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true },
  }
  const context = { name: 'x', context: { cluster: 'c', user: 'u' } }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'x',
    clusters: [cluster],
    contexts: [context],
  }
  await writeFile(file, JSON.stringify({ ...config, users: [{ name: 'u', user: {} }] }))
  return file
}

async function freePort(): Promise<number> {
  const probe = http.createServer().listen(0)
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

async function optionsOf(handlersDirectory: string, pluginDirectory: string, metricsPort: number) {
  return {
    node: 'node-a',
    pod: undefined,
    podNamespace: undefined,
    handlersDirectory,
    pluginDirectory,
    podResourcesSocket: path.join(directory, 'r.sock'),
    criSocket: undefined,
    stateDirectory: path.join(directory, 's'),
    brokerInfo: 'on',
    handler: [],
    handlerMounts: [],
    handlerAddresses: [],
    handlerDevices: [],
    handlerEnvironment: [],
    isolated: 'off',
    handlerVariables: [],
    handlersGroup: undefined,
    kubeconfig: await kubeconfig(),
    metricsPort,
    unhealthyAfter: 30,
    removeAfter: 300,
    maxConfigurationDevices: 1000,
    maxDevices: 2000,
    maxSlots: 20_000,
    maxResourceNames: 4000,
    newResourceNames: 500,
    slotGrace: undefined,
    slotHandover: 15,
    compatibility: 'off',
    logLevel: 'error',
  } as const
}

it('A23 the agent answers probes, has metrics, and leaves no socket and no port', async () => {
  const metricsPort = await freePort()
  const [handlers, plugins] = [path.join(directory, 'h'), path.join(directory, 'p')]
  const options = await optionsOf(handlers, plugins, metricsPort)
  running = runInContext({ log: silentLogger, signal: stop.signal }, (context) =>
    runAgent(options, { packagesFrom: directory, ...context }),
  )
  const ask = async (at: string) => {
    const answer = await fetch(`http://127.0.0.1:${metricsPort}${at}`)
    return [answer.status, await answer.text()] as const
  }
  // The agent waits for an unreachable cluster: its probes do not lead to a restart.
  await eventually(async () =>
    expect(await ask('/readyz')).toEqual([
      503,
      expect.stringContaining('waiting for the API server'),
    ]),
  )
  expect((await ask('/healthz'))[0]).toBe(200)
  serving = true
  await eventually(async () => expect((await ask('/readyz'))[0]).toBe(200))
  expect((await ask('/healthz'))[0]).toBe(200)
  expect((await ask('/metrics'))[1]).toMatch(
    /^akri_api_requests_total\{method="GET",status="200"\} [1-9]/m,
  )
  expect(await readdir(handlers)).toEqual(['agent-registration.sock'])
  await rm(path.join(handlers, 'agent-registration.sock'))
  await eventually(async () =>
    expect(await ask('/healthz')).toEqual([
      503,
      `${handlers}/agent-registration.sock does not answer\n`,
    ]),
  )

  stop.abort()
  await running
  await expect(ask('/healthz')).rejects.toThrow()
  expect([await readdir(handlers), await readdir(plugins)]).toEqual([[], []])
})

it('an API server that failed shows as an Event of the Pod of the agent', async () => {
  const options = await optionsOf(
    path.join(directory, 'h'),
    path.join(directory, 'p'),
    await freePort(),
  )
  running = runInContext({ log: silentLogger, signal: stop.signal }, (context) =>
    runAgent(
      { ...options, pod: 'akri-agent-x', podNamespace: 'akri' },
      { packagesFrom: directory, ...context },
    ),
  )
  const metrics = `http://127.0.0.1:${options.metricsPort}/metrics`
  await eventually(async () =>
    expect(await (await fetch(metrics)).text()).toMatch(
      /^akri_node_problems_total\{problem="ApiRequestFailed"\} [1-9]/m,
    ),
  )
  expect(posted).toEqual([])
  serving = true
  await eventually(() =>
    expect(posted).toContainEqual(
      expect.objectContaining({
        kind: 'Event',
        reason: 'ApiRequestFailed',
        involvedObject: expect.objectContaining({
          apiVersion: 'v1',
          kind: 'Pod',
          namespace: 'akri',
          name: 'akri-agent-x',
        }),
      }),
    ),
  )
})

it('a start that fails after the agent was started leaves no socket', async () => {
  serving = true
  const [handlers, plugins] = [path.join(directory, 'h'), path.join(directory, 'p')]
  const options = await optionsOf(handlers, plugins, await freePort())
  const context = { log: silentLogger, signal: stop.signal }
  // No SDK can be resolved from the directory: the handlers cannot be started.
  const start = runInContext(context, (program) =>
    runAgent({ ...options, isolated: 'on' }, { packagesFrom: directory, ...program }),
  )
  await expect(start).rejects.toThrow('@akrijs/sdk is not installed')
  expect(await readdir(handlers)).toEqual([])
})
