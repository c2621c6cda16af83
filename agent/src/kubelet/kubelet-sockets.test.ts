import * as fs from 'node:fs/promises'
import path from 'node:path'
import { RegistrationService } from '@akrijs/proto/device-plugin'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { type sendUnaryData, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually, passing } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { grpcServer } from '../testing/grpc-server.js'
import { missingForNoWatches, runScript, WITHOUT_WATCHES } from '../testing/run-script.js'
import { leaveSocket, listenOn } from '../testing/sockets.js'
import { KubeletSockets } from './kubelet-sockets.js'

let directory: string
let plugins: string
let socket: string
let sockets: KubeletSockets
let clock: ManualClock
const open: (() => unknown)[] = []

beforeEach(async () => {
  directory = await temporaryDirectory()
  clock = new ManualClock()
  plugins = path.join(directory, 'p')
  socket = path.join(plugins, 'kubelet.sock')
  await fs.mkdir(plugins)
  sockets = new KubeletSockets({
    pluginDirectory: plugins,
    podResourcesSocket: path.join(directory, 'r.sock'),
    clock,
    log: silentLogger,
  })
})

afterEach(async () => {
  await sockets.close()
  for (const close of open.splice(0)) await close()
})

async function kubelet(register: (answer: sendUnaryData<object>) => void): Promise<void> {
  const server = await grpcServer(socket, RegistrationService, {
    register: (_call: unknown, answer: sendUnaryData<object>) => register(answer),
  })
  open.unshift(() => server.forceShutdown())
}

const { signal } = new AbortController()
const register = (until = signal) => sockets.register('akri.sh/cam', 'akri-cam.sock', until)

describe('the sockets of a kubelet', () => {
  it('A23 are cleared of the sockets of a dead agent, and of no others', async () => {
    await leaveSocket(path.join(plugins, 'akri-dead.sock'))
    await leaveSocket(path.join(plugins, 'other-dead.sock'))
    await listenOn(path.join(plugins, 'akri-alive.sock'))
    await fs.writeFile(path.join(plugins, 'akri-file.sock'), 'no socket')
    await fs.writeFile(path.join(plugins, 'kubelet_internal_checkpoint'), '{}')
    await sockets.open()
    expect((await fs.readdir(plugins)).sort()).toEqual([
      'akri-alive.sock',
      'akri-file.sock',
      'kubelet_internal_checkpoint',
      'other-dead.sock',
    ])
  })

  it('report why a registration failed, as a transient error', async () => {
    await expect(register()).rejects.toMatchObject({
      code: 'AKRI_ERR_KUBELET_UNAVAILABLE',
      kind: 'transient',
      message: expect.stringMatching(/kubelet\.sock: there is no such socket \(ENOENT\)/),
    })
    const details = 'the version is not supported'
    await kubelet((answer) => answer({ code: status.INVALID_ARGUMENT, details }))
    await expect(register()).rejects.toMatchObject({
      code: 'AKRI_ERR_PLUGIN_REFUSED',
      kind: 'transient',
      message: expect.stringContaining(
        'akri.sh/cam: 3 INVALID_ARGUMENT: the version is not supported',
      ),
    })
  })

  it('abort a registration on request', async () => {
    const stop = new AbortController()
    await kubelet(() => stop.abort())
    await expect(register(stop.signal)).rejects.toThrow(/CANCELLED/)
  })

  it('A21 report a kubelet that recreated its socket, also with its inode, only', async () => {
    const aside = path.join(directory, 'aside.sock')
    await listenOn(socket)
    await fs.link(socket, aside)
    const { ino, ctimeMs } = await fs.stat(socket)
    await sockets.open()
    const [restarted, looked] = [vi.fn(), vi.fn()]
    sockets.onRestart(restarted, signal)
    sockets.onDirectoryRead(looked, signal)
    await listenOn(path.join(plugins, 'new.sock'))
    const names = new Set(['kubelet.sock', 'new.sock'])
    await passing(clock, () => expect(looked).toHaveBeenCalledWith(names))
    expect(restarted).not.toHaveBeenCalled()
    await fs.rm(socket)
    await fs.rename(aside, socket)
    const recreated = await fs.stat(socket)
    expect(recreated.ino).toBe(ino)
    expect(recreated.ctimeMs).toBeGreaterThan(ctimeMs)
    // An event reports it: the time of the next check does not come.
    await eventually(() => expect(restarted).toHaveBeenCalledTimes(1))
  })

  /** Lets the sockets be checked each ten seconds, so many times, and waits for the last check. */
  const looks = async (count: number) => {
    for (let look = 0; look < count; look++) {
      await clock.untilSleeping()
      await clock.advance(10_000)
    }
    await clock.untilSleeping()
  }

  it('end the agent after a minute in which the socket of the kubelet refuses', async () => {
    await leaveSocket(socket)
    await sockets.open()
    const ended = vi.fn()
    void sockets.gone.then(ended)
    await looks(1)
    expect(sockets.problem).toBe(`${socket} refuses connections`)
    await looks(5)
    // A kubelet that restarts: the minute begins again with the next refusal.
    await fs.rm(socket)
    await listenOn(socket)
    await looks(7)
    expect(sockets.problem).toBeUndefined()
    await fs.rm(socket)
    await leaveSocket(socket)
    await looks(2)
    expect(ended).not.toHaveBeenCalled()
    await looks(7)
    expect(ended.mock.calls).toEqual([
      [expect.objectContaining({ code: 'AKRI_ERR_KUBELET_GONE', kind: 'transient' })],
    ])
  })

  it('end the agent at once if the directory was replaced, as a container sees it', async () => {
    // Like the mount of a container, an open directory stays the old one.
    const old = await fs.open(plugins)
    open.unshift(() => old.close())
    sockets = new KubeletSockets({
      pluginDirectory: `/proc/self/fd/${old.fd}`,
      podResourcesSocket: path.join(directory, 'r.sock'),
      clock,
      log: silentLogger,
    })
    await sockets.open()
    await fs.rm(plugins, { recursive: true })
    await fs.mkdir(plugins)
    await looks(1)
    const { message } = await sockets.gone
    expect(message).toContain('was deleted or replaced on the node')
    expect(sockets.problem).toBeDefined()
  })

  it('A21 are polled, with one warning, without watches', async ({ skip }) => {
    const missing = missingForNoWatches()
    if (missing !== undefined) skip(missing)
    const script = `
      import { rename } from 'node:fs/promises'
            import { createServer } from 'node:net'
      import { setImmediate } from 'node:timers/promises'
      import { silentLogger, systemClock } from '@akrijs/runtime'
      import { KubeletSockets } from './kubelet-sockets.js'
      process.chdir(${JSON.stringify(plugins)})
      const warnings = []
      const warn = ({ err, ...fields }, message) => warnings.push([err.code, fields, message])
      const sockets = new KubeletSockets({
        pluginDirectory: '.',
        podResourcesSocket: 'r.sock',
        clock: { ...systemClock, sleep: () => setImmediate() },
        log: { ...silentLogger, warn },
      })
      const listen = (name) =>
        new Promise((resolve) => createServer().listen(name, resolve).unref())
      await listen('kubelet.sock')
      await sockets.open()
      const { signal } = new AbortController()
      for (let read = 0; read < 3; read++)
        await new Promise((resolve) => sockets.onDirectoryRead(resolve, signal))
      const restarted = new Promise((resolve) => sockets.onRestart(resolve, signal))
      await listen('new.sock')
      await rename('new.sock', 'kubelet.sock')
      await restarted
      await sockets.close()
      console.log(JSON.stringify(warnings))`
    const place = { resolveDir: import.meta.dirname, directory }
    expect(await runScript(WITHOUT_WATCHES, script, place)).toEqual([
      ['EMFILE', { pollMs: 5000 }, 'kubelet directory not watched, and polled instead'],
    ])
  })
})
