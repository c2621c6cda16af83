import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import path from 'node:path'
import { discover } from '@akrijs/sdk/testing'
import { afterEach, describe, expect, it } from 'vitest'
import { freePort } from '../../../test/support/free-port.js'
import { endProcess, untilPrinted } from '../../../test/support/peer-process.js'
import { createModbusHandler } from './handler.js'

// The peer is pymodbus. The variable names a directory with that Python package.
const env = { ...process.env, PYTHONPATH: process.env.AKRI_TEST_PYMODBUS ?? '' }
const isMissing = spawnSync('python3', ['-c', 'import pymodbus'], { env }).status !== 0
const title = `the Modbus handler${isMissing ? ' (needs the Python package pymodbus)' : ''}`
const peer = path.join(import.meta.dirname, '../test-peers/pymodbus-server.py')
let server: ChildProcess | undefined

afterEach(() => endProcess(server))

async function start(port: number): Promise<void> {
  server = spawn('python3', [peer, '127.0.0.1', String(port)], { env })
  await untilPrinted(server, /listening/)
}

describe.skipIf(isMissing)(title, () => {
  it('offers the units of pymodbus with all that they say, and not those between', async () => {
    const port = await freePort()
    await start(port)
    const details = { addresses: ['127.0.0.1'], port, units: ['1-3', 17], pauseMs: 10 }
    await using session = discover(createModbusHandler(), details)
    const device = (unit: number) => ({
      id: `127.0.0.1:${port}/${unit}`,
      properties: {
        MODBUS_ADDRESS: '127.0.0.1',
        MODBUS_PORT: String(port),
        MODBUS_UNIT: String(unit),
        MODBUS_VENDOR_NAME: 'ACME',
        MODBUS_PRODUCT_CODE: 'PM-5',
        MODBUS_REVISION: '1.2',
        MODBUS_VENDOR_URL: 'http://acme.example',
        MODBUS_PRODUCT_NAME: 'Power Meter',
        // pymodbus sends these in a second answer.
        MODBUS_MODEL_NAME: 'M'.repeat(200),
        MODBUS_APPLICATION_NAME: `Hall ${'1'.repeat(180)}`,
      },
    })
    expect(await session.next(60_000)).toMatchObject([device(1), device(17)])
  })

  it('says that pymodbus has no such unit', async () => {
    const port = await freePort()
    await start(port)
    const details = { addresses: ['127.0.0.1'], port, units: [5] }
    await using session = discover(createModbusHandler(), details)
    expect(await session.next(60_000)).toEqual([])
    expect(session.remarks).toEqual([
      `no Modbus answer from 127.0.0.1:${port}/5: the gateway reaches no such unit`,
    ])
  })
})
