import { stat, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import net from 'node:net'
import path from 'node:path'
import { silentLogger, systemClock } from '@akrijs/runtime'
import {
  BrokerLedger,
  BrokerSet,
  FinishedJobs,
  type StandaloneAgent,
  startStandalone,
} from '@akrijs/standalone'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { askAgent } from './control-client.js'
import { serveControl } from './control-server.js'

const CONFIGURATION = `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: lab, namespace: plant }
spec:
  discoveryHandler:
    name: debugEcho
    discoveryDetails: 'descriptions: [foo0]'
    discoveryProperties: [{ name: password_default, value: hunter2 }]
`

/** A URL where its handler wants something else, and beside it a field that nothing masks. */
const REFUSED = `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: hub, namespace: plant, labels: { at: 'http://me:hunter2@hub/' } }
spec:
  discoveryHandler:
    name: debugEcho
    discoveryDetails: 'descriptions: "http://me:hunter2@hub/"'
`

let directory: string
const at = (name: string) => path.join(directory, name)

beforeAll(async () => {
  directory = await temporaryDirectory()
})

describe('the control socket of an agent', () => {
  let standalone: StandaloneAgent
  let control: { close(): Promise<void> }
  let brokers: BrokerSet
  const socket = () => at('control.sock')

  beforeAll(async () => {
    await writeFile(at('lab.yaml'), CONFIGURATION)
    await writeFile(at('hub.yaml'), REFUSED)
    standalone = await startStandalone({
      manifests: [at('lab.yaml'), at('hub.yaml')],
      stateDirectory: at('state'),
      node: 'node-a',
      handlers: ['@akrijs/handler-debug-echo'],
      handlersFrom: import.meta.dirname,
      log: silentLogger,
    })
    brokers = new BrokerSet({
      standalone,
      ledger: new BrokerLedger(at('brokers.json')),
      finished: await FinishedJobs.open(at('jobs.json')),
      clock: systemClock,
      log: silentLogger,
      environment: {},
      onLine() {},
      onChange() {},
    })
    control = await serveControl(socket(), standalone, brokers)
    await eventually(() => expect(standalone.cluster.instances.list()).toHaveLength(1))
  })

  afterAll(async () => {
    await control.close()
    await brokers.close()
    await standalone.close()
  })

  it('serves no password', async () => {
    const answer = JSON.stringify(await askAgent(socket(), '/apis/akri.sh/v0/configurations'))
    expect(answer).toContain('{"name":"password_default","value":"***"}')
  })

  it('serves no password of a URL in a message or an Event', async () => {
    await eventually(async () => {
      const answer = await Promise.all(
        ['/apis/akri.sh/v0/configurations', '/events'].map((url) => askAgent(socket(), url)),
      )
      for (const each of answer) {
        expect(JSON.stringify(each)).toContain('http://me:***@hub/')
        expect(JSON.stringify(each)).not.toContain('hunter2')
      }
    })
  })

  it('serves lists of objects, Events and brokers, and nothing else', async () => {
    const items = standalone.cluster.instances.list()
    const all = { apiVersion: 'akri.sh/v0', kind: 'InstanceList', items }
    expect(await askAgent(socket(), '/apis/akri.sh/v0/instances')).toEqual(all)
    const broker = { instance: 'lab-8120fe' }
    expect(await askAgent(socket(), '/brokers')).toEqual({ items: [broker] })
    for (const url of ['/', '/nothing', '/apis/akri.sh/v0/gadgets', '/%', '//'])
      expect(await askAgent(socket(), url)).toBeUndefined()
  })

  it('refuses all methods but GET', async () => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      const status = await new Promise<number | undefined>((resolve, reject) => {
        const call = request(
          { socketPath: socket(), path: '/apis/akri.sh/v0/instances/lab-8120fe', method },
          (response) => {
            response.resume()
            resolve(response.statusCode)
          },
        )
        call.on('error', reject).end('{"spec":{}}')
      })
      expect(status).toBe(404)
    }
    expect(standalone.cluster.instances.list()).toHaveLength(1)
  })

  it('is open to the user of the agent only', async () => {
    expect((await stat(socket())).mode & 0o777).toBe(0o600)
  })

  it('is not taken over by a second agent', async () => {
    await expect(serveControl(socket(), standalone, brokers)).rejects.toThrow(
      'is served by another process already',
    )
  })
})

describe('a request to an agent', () => {
  let server: net.Server | undefined

  beforeEach(() => {
    server = undefined
  })

  afterEach(async () => {
    await new Promise((resolve) =>
      server === undefined ? resolve(undefined) : server.close(resolve),
    )
  })

  /** A server on a socket. */
  async function answering(answer: (socket: net.Socket) => void): Promise<string> {
    const socket = at('other.sock')
    server = net.createServer((connection) =>
      connection.once('data', () => answer(connection)).on('error', () => {}),
    )
    await new Promise<void>((resolve) => server?.listen(socket, resolve))
    return socket
  }

  it('reports that no agent runs, and how to start an agent', async () => {
    await expect(askAgent(at('none.sock'), '/')).rejects.toThrow(
      /no agent runs there\. Start an agent with akri run.*--state-dir/,
    )
  })

  it('reports a server that is no agent', async () => {
    const page = 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello'
    await expect(askAgent(await answering((socket) => socket.end(page)), '/')).rejects.toThrow(
      /is no agent/,
    )
  })

  it('reports an agent that ended during its answer', async () => {
    const half = 'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"items":'
    await expect(askAgent(await answering((socket) => socket.end(half)), '/')).rejects.toThrow(
      /ended while it answered/,
    )
  })
})
