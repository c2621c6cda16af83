import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { DeviceService, type DeviceServiceOptions } from '@akrijs/handler-onvif/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { freePort } from '../../../test/support/free-port.js'
import { run } from './broker.js'

const credential = { username: 'operator', password: 'correct horse' }

let directory: string
let stop: AbortController
let running: Promise<void> | undefined

beforeEach(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-snapshot-'))
  stop = new AbortController()
  vi.spyOn(process.stderr, 'write').mockReturnValue(true)
})
afterEach(async () => {
  stop.abort()
  await running
  vi.restoreAllMocks()
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

describe('the broker of an ONVIF camera', () => {
  it.each([
    ['that requires a credential', { credential }],
    ['that requires HTTP digest', { credential, algorithms: ['MD5'] }],
    ['without a credential', {}],
    ['that requires a credential for each call', { credential, openOperations: [] }],
    [
      'that requires a credential for each call by HTTP status 401',
      { credential, openOperations: [], refusal: { status: 401 } },
    ],
    ['whose clock is a day behind', { credential, clockOffsetMs: -86_400_000 }],
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

  it.each([
    ['by faults', {}],
    ['by HTTP digest', { authentication: ['http-digest'] }],
    ['by HTTP status 401 for each call', { refusal: { status: 401 }, openOperations: [] }],
    ['by HTTP status 403', { refusal: { status: 403 } }],
    ['by HTTP status 400 with a bare fault', { refusal: { status: 400, reason: 'no' } }],
    ['by HTTP status 500 with a bare fault', { refusal: { status: 500, reason: 'no' } }],
    ['by another fault', { refusal: { status: 400, subcode: 'InvalidArgVal', reason: 'no' } }],
  ] satisfies [string, DeviceServiceOptions][])(
    'tries a password that a camera refuses %s once, in growing pauses, and says so',
    async (_how, options: DeviceServiceOptions) => {
      await using camera = await DeviceService.start({ credential, ...options })
      const { openOperations = ['GetServices'], authentication = ['username-token'] } = options
      const refused = () =>
        camera.requests.filter(
          ({ operation, headers, body }) =>
            !openOperations.includes(operation) &&
            (authentication.includes('username-token')
              ? body.includes('UsernameToken')
              : headers.authorization !== undefined),
        ).length
      const pauses: number[] = []
      const tries: number[] = []
      const wait = async (ms: number) => {
        pauses.push(ms)
        tries.push(refused())
        if (pauses.length === 8) await once(stop.signal, 'abort')
      }
      const port = await freePort()
      const variables = { ...environment(camera.url, 'hunter2'), SNAPSHOT_PORT: String(port) }
      running = run(variables, stop.signal, wait)
      await expect.poll(() => pauses.length).toBe(8)
      expect(pauses).toEqual([60, 120, 240, 480, 960, 1920, 3600, 3600].map((s) => s * 1000))
      expect(tries).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
      const said =
        /^none at .*: the camera refuses the user operator or the password; the next try is at 20/
      expect(reported()).toMatch(said)
      const reply = await fetch(`http://127.0.0.1:${port}/`)
      expect([reply.status, await reply.text()]).toEqual([503, expect.stringMatching(said)])
      expect(reported()).not.toContain('hunter2')
    },
  )

  it('takes pictures again when the camera accepts the password again', async () => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave('fault-of-soap-1.1', ['GetServices'])
    const pauses: number[] = []
    const wait = async (ms: number) => {
      pauses.push(ms)
      if (pauses.length === 2) camera.misbehave(undefined)
      if (pauses.length === 4) await once(stop.signal, 'abort')
    }
    running = run(environment(camera.url), stop.signal, wait)
    await expect.poll(() => pauses).toEqual([60_000, 120_000, 200, 200])
    expect(reported()).toContain('166 bytes')
  })

  it('takes the next free port if its port is in use, and reports the address', async () => {
    await using camera = await DeviceService.start({ credential })
    const port = await freePort()
    const other = createServer()
    await once(other.listen(port, '127.0.0.1'), 'listening')
    const variables = { SNAPSHOT_PORT: String(port), SNAPSHOT_ADDRESS: '127.0.0.1' }
    running = run({ ...environment(camera.url), ...variables }, stop.signal)
    await expect.poll(reported).toContain('166 bytes')
    const page = readFileSync(path.join(directory, 'page'), 'utf8')
    expect(Number(new URL(page).port)).toBeGreaterThan(port)
    expect((await fetch(page)).status).toBe(200)
    other.close()
  })

  it('has a port that no other broker of the machine has, with the same setting', async () => {
    await using red = await DeviceService.start({ picture: () => Buffer.from('red') })
    await using blue = await DeviceService.start({ picture: () => Buffer.from('blue') })
    const port = String(await freePort())
    const page = (name: string) => readFileSync(path.join(directory, name, 'page'), 'utf8')
    // Both start at the same time.
    const brokers = Object.entries({ red, blue }).map(([name, { url }]) => {
      const info = path.join(directory, name)
      mkdirSync(info)
      const variables = { SNAPSHOT_PORT: port, AKRI_BROKER_INFO_DIRECTORY: info }
      return run({ ...environment(url), ...variables, SNAPSHOT_ADDRESS: '127.0.0.1' }, stop.signal)
    })
    running = Promise.all(brokers).then(() => undefined)
    for (const name of ['red', 'blue']) {
      await expect.poll(() => existsSync(path.join(directory, name, 'page'))).toBe(true)
      await expect.poll(async () => (await fetch(page(name))).text()).toBe(name)
    }
    expect(page('red')).not.toBe(page('blue'))
  })

  it('takes a free port for port 0', async () => {
    await using camera = await DeviceService.start({ credential })
    const variables = { SNAPSHOT_PORT: '0', SNAPSHOT_ADDRESS: '127.0.0.1' }
    running = run({ ...environment(camera.url), ...variables }, stop.signal)
    await expect.poll(reported).toContain('166 bytes')
    const page = readFileSync(path.join(directory, 'page'), 'utf8')
    expect(page).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*\/$/)
    const reply = await fetch(page)
    expect([reply.status, reply.headers.get('refresh')]).toEqual([200, '1'])
  })

  it('ends without a camera, or with an invalid interval', async () => {
    await expect(run({}, stop.signal)).rejects.toThrow('ONVIF_DEVICE_SERVICE_URL is not set')
    await expect(
      run({ ...environment('http://x/'), SNAPSHOT_SECONDS: 'often' }, stop.signal),
    ).rejects.toThrow('SNAPSHOT_SECONDS is often')
    await expect(
      run({ ...environment('http://x/'), SNAPSHOT_PORT: '70000' }, stop.signal),
    ).rejects.toThrow('SNAPSHOT_PORT is 70000: write a port, or 0 for a free port')
  })
})
