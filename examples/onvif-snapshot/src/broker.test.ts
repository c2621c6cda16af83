import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { DeviceService, type DeviceServiceOptions } from '@akrijs/handler-onvif/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { run } from './broker.js'

const credential = { username: 'operator', password: 'correct horse' }

let directory: string
let stop: AbortController
let running: Promise<void> | undefined

beforeEach(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-snapshot-'))
  stop = new AbortController()
})
afterEach(async () => {
  stop.abort()
  await running
  rmSync(directory, { recursive: true, force: true })
})

const reported = () =>
  existsSync(path.join(directory, 'snapshot'))
    ? readFileSync(path.join(directory, 'snapshot'), 'utf8')
    : ''

/** The environment of a container with the camera. */
const environment = (url: string, password = credential.password) => ({
  ONVIF_DEVICE_SERVICE_URL: url,
  ONVIF_USERNAME: credential.username,
  ONVIF_PASSWORD: password,
  AKRI_BROKER_INFO_DIRECTORY: directory,
  SNAPSHOT_SECONDS: '0.2',
})

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, () => {
      const address = server.address()
      server.close(() =>
        resolve(typeof address === 'object' && address !== null ? address.port : 0),
      )
    })
  })
}

describe('the broker of an ONVIF camera', () => {
  it.each([
    ['that requires a credential', { credential }],
    ['that requires HTTP digest', { credential, algorithms: ['MD5'] }],
    ['without a credential', {}],
    ['without media 2', { credential, media: [1], hasGetServices: false }],
  ] satisfies [string, DeviceServiceOptions][])(
    'takes pictures of a camera %s, and reports them',
    async (_which, options) => {
      await using camera = await DeviceService.start(options)
      running = run(environment(camera.url), stop.signal)
      await expect.poll(reported).toMatch(/^166 bytes at \d{4}-/)
      const first = reported()
      await expect.poll(reported).not.toBe(first)
      stop.abort()
      await running
    },
  )

  it('serves the last picture', async () => {
    await using camera = await DeviceService.start({ credential })
    const port = await freePort()
    running = run({ ...environment(camera.url), SNAPSHOT_PORT: String(port) }, stop.signal)
    await expect.poll(reported).toContain('166 bytes')
    const reply = await fetch(`http://127.0.0.1:${port}/`)
    expect([reply.headers.get('content-type'), (await reply.arrayBuffer()).byteLength]).toEqual([
      'image/jpeg',
      166,
    ])
    stop.abort()
    await running
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow()
  })

  it('reports why there is no picture, and goes on', async () => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave('fault', ['GetSnapshotUri'])
    running = run(environment(camera.url), stop.signal)
    await expect.poll(reported).toMatch(/^none at .*not supported/)
    camera.misbehave(undefined)
    await expect.poll(reported).toContain('166 bytes')
    stop.abort()
    await running
  })

  it('reports a wrong password without showing it', async () => {
    await using camera = await DeviceService.start({ credential })
    running = run(environment(camera.url, 'hunter2'), stop.signal)
    await expect.poll(reported).toMatch(/^none at /)
    expect(reported()).not.toContain('hunter2')
    stop.abort()
    await running
  })

  it('ends without a camera, or with an invalid interval', async () => {
    await expect(run({}, stop.signal)).rejects.toThrow('ONVIF_DEVICE_SERVICE_URL is not set')
    await expect(
      run({ ...environment('http://x/'), SNAPSHOT_SECONDS: 'often' }, stop.signal),
    ).rejects.toThrow('SNAPSHOT_SECONDS is often')
  })
})
