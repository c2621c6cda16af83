import { text } from 'node:stream/consumers'
import { FakeApiServer } from '@akrijs/kube/testing'
import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { configurationObject, instanceObject } from '../../cli/src/testing/migrated-objects.js'
import { noticeAt, PageStream, pageAddress, visit } from '../standalone/support/page-visitor.js'
import { ClusterPage } from '../support/cluster-page.js'
import { eventually } from '../support/eventually.js'
import { environmentWith } from './environment.js'

const BASE = '/apis/akri.sh/v0'
const SECRET = 'hunter2'

describe('akri ui', () => {
  let server: FakeApiServer
  let env: Record<string, string>

  beforeEach(async () => {
    server = new FakeApiServer(systemClock)
    env = await environmentWith((await server.listen()).href)
    server.put(`${BASE}/namespaces/plant/configurations/cam`, configurationObject())
    const brokerProperties = { NAME: 'dome', CAMERA_PASSWORD: SECRET }
    const spec = { brokerProperties, deviceUsage: { 'cam-8120fe-0': 'node-a' } }
    server.put(`${BASE}/namespaces/plant/instances/cam-8120fe`, instanceObject(spec))
    server.put(`${BASE}/nodereports/node-a`, {
      metadata: { name: 'node-a', uid: 'a', resourceVersion: '1', creationTimestamp: '2026-01-01' },
      slots: { 'plant/cam-8120fe': [{ slot: 'cam-8120fe-0', pod: 'plant/reader' }] },
    })
  })

  afterEach(() => server.close())

  function start(...args: readonly string[]): ClusterPage {
    const program = new ClusterPage(args, env)
    onTestFinished(async () => void (await program.stop()))
    return program
  }

  async function open(program: ClusterPage): Promise<PageStream> {
    const stream = await PageStream.open(await pageAddress(program))
    onTestFinished(() => stream.close())
    await eventually(() => expect(stream.text).toContain('event: synced'))
    return stream
  }

  it('shows a device with the Pod that uses its slot, each change, and no secret', async () => {
    const stream = await open(start('-n', 'plant'))
    expect(stream.text).toContain('"users":{"cam-8120fe-0":"plant/reader"}')
    expect(stream.text).toContain('{"title":"plant","isCluster":true}')
    expect(stream.text).toContain('"CAMERA_PASSWORD":"***"')
    server.remove(`${BASE}/namespaces/plant/instances/cam-8120fe`)
    await eventually(() => expect(stream.text).toContain('["device/plant/cam-8120fe",null]'))
    expect(stream.text).not.toContain(SECRET)
    for (const { method, path } of server.requests)
      expect(`${method} ${path}`).toMatch(
        /^GET .*\/(configurations|instances|nodereports|pods|events)$/,
      )
  })

  it('shows all namespaces of a named context', async () => {
    const stream = await open(start('-A', '--context', 'x', '--kubeconfig', env.KUBECONFIG ?? ''))
    expect(stream.text).toContain('{"title":"x · all namespaces","isCluster":true}')
    expect(stream.text).toContain('"device/plant/cam-8120fe"')
  })

  it('names a missing right on the page, and shows the rest', async () => {
    server.refusal = ({ path }) =>
      path.endsWith('/nodereports') ? { status: 403, message: 'forbidden' } : undefined
    const stream = await open(start('-n', 'plant'))
    expect(stream.text).toContain('right to list and watch nodereports.akri.sh of the cluster is')
    expect(stream.text).toContain('"users":{}')
  })

  it('says on the page that the API server is lost, and goes on when it is back', async () => {
    const program = start('-n', 'plant')
    const stream = await open(program)
    server.answer = (_request, response) => void response.destroy()
    server.cut()
    await eventually(() => expect(stream.text).toContain('The API server does not answer'))
    server.answer = undefined
    await eventually(() => expect(stream.text).toMatch(/does not answer.*"messages":\[\]/s))
    server.remove(`${BASE}/namespaces/plant/instances/cam-8120fe`)
    await eventually(() => expect(stream.text).toContain('["device/plant/cam-8120fe",null]'))
    expect(program.output).toMatch(/watch failed.*watch goes on/s)
  })

  it('serves stated hosts without a token behind a proxy, and no other', async () => {
    const hosts = ['--allowed-host', 'Devices.example.com', '--listen', '127.0.0.1']
    const program = start('-n', 'plant', ...hosts, '--log-format', 'json')
    const address = await eventually(
      () =>
        /"address":"(http:[^"]+)","msg":"page served"/.exec(program.output)?.[1] ?? expect.fail(),
    )
    const host = 'devices.example.com'
    expect(await text(await visit(address, '/', { host }))).toContain('<!doctype html>')
    expect(await noticeAt(visit(address, '/'))).toContain('--allowed-host')
    expect(await text(await visit(address, '/healthz'))).toBe('ok\n')
  })

  it.each([
    [['--listen', '0.0.0.0'], /--listen 0\.0\.0\.0 needs --allowed-host/],
    [['--allowed-host', 'https://a.example'], /write a host as in an address/],
    [['-n', 'plant', '-A'], /either --namespace or --all-namespaces/],
  ])('is refused with %j', async (args, message) => {
    const program = start(...args)
    expect(await program.ended()).toBe(2)
    expect(program.output).toMatch(message)
  })

  it('ends in order, and leaves nothing open', async () => {
    const program = start('-n', 'plant')
    await open(program)
    expect(await program.stop()).toBe(0)
    expect(program.output).not.toMatch(/warn|error/i)
  })
})
