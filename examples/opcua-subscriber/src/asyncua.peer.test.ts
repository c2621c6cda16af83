import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { serverEnvironment, stacks } from '../../../test/opcua/stacks.js'
import { AkriProgram, root } from '../../../test/standalone/support/akri-program.js'
import { endProcess, untilPrinted } from '../../../test/support/peer-process.js'
import { BuiltBroker } from '../test-peers/broker.js'

// Values of a server whose stack is not that of the broker, from the network to the Instance.

const PORT = 48_420
const ADDRESS = '127.0.0.1'
const url = `opc.tcp://${ADDRESS}:${PORT}/`
const patience = { timeout: 120_000, interval: 100 }

const { missing = [] } = stacks.find(({ stack }) => stack === 'asyncua') ?? {}
const needs = missing.length > 0 ? ` (needs ${missing.join(', ')})` : ''

describe.skipIf(missing.length > 0)(`the OPC UA subscriber with values of asyncua${needs}`, () => {
  let broker: BuiltBroker
  const akri = AkriProgram.ofEachTest()
  let server: ChildProcess

  beforeAll(async () => {
    broker = await BuiltBroker.build()
    const program = path.join(import.meta.dirname, '../test-peers/asyncua-values.py')
    server = spawn('python3', [program, String(PORT), ADDRESS], {
      env: serverEnvironment,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await untilPrinted(server, /listening/)
  })

  afterEach(() => broker.kill())

  afterAll(async () => {
    broker.remove()
    await endProcess(server)
  })

  it.each([
    ['Boolean', { type: 'Boolean', value: true }],
    ['NaN', { type: 'Double', value: 'NaN' }],
    ['Infinity', { type: 'Float', value: '-Infinity' }],
    ['Int64', { type: 'Int64', value: '-9223372036854775808' }],
    ['UInt64', { type: 'UInt64', value: '18446744073709551615' }],
    ['Bytes', { type: 'ByteString', value: 'AP8H' }],
    ['Status', { type: 'StatusCode', value: { Code: 0x808c_0000, Symbol: 'BadSensorFailure' } }],
    ['List', { type: 'Int64', value: ['9223372036854775807', '-1'] }],
    ['Matrix', { type: 'Int32', value: [1, 2, 3, 4, 5, 6], dimensions: [2, 3] }],
  ])('keeps %s', async (name, line) => {
    const running = broker.run({ OPCUA_DISCOVERY_URL: url, OPCUA_NODE_ID: `ns=2;s=${name}` })
    await expect.poll(() => running.reported('time'), patience).not.toBe('')
    expect(running.values()[0]).toMatchObject({ status: 'Good', ...line })
    expect(running.reported('value')).toBe(JSON.stringify(line.value))
  })

  it('shows a bad status on the Instance', async () => {
    const discoveryDetails = { opcuaDiscoveryMethod: { standard: { discoveryUrls: [url] } } }
    const container = {
      name: 'subscriber',
      command: [process.execPath, path.join(root, 'examples/opcua-subscriber/dist/main.js')],
      env: [{ name: 'OPCUA_NODE_ID', value: 'ns=2;s=Sensor' }],
    }
    const configuration = {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'sensor' },
      spec: {
        discoveryHandler: { name: 'opcua', discoveryDetails: JSON.stringify(discoveryDetails) },
        brokerSpec: { brokerPodSpec: { containers: [container] } },
      },
    }
    const file = await akri.write('sensor.json', JSON.stringify(configuration))
    akri.start('-f', file, '--handler', '@akrijs/handler-opcua')
    await vi.waitFor(
      async () =>
        expect((await akri.instances()).map(({ status }) => status?.brokerInfo)).toEqual([
          expect.objectContaining({ connected: 'yes', status: 'BadSensorFailure' }),
        ]),
      patience,
    )
  })
})
