import { type ChildProcess, spawn } from 'node:child_process'
import {
  link,
  mkdir,
  mkdtemp,
  open as openFile,
  readdir,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { createServer, type Server as NetServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { type RegisterRequest, RegistrationService } from '@akrijs/proto/device-plugin'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { type sendUnaryData, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { grpcServer } from '../testing/grpc-server.js'
import { missingForNoWatches, runScript, withoutWatches } from '../testing/run-script.js'
import { KubeletSockets } from './kubelet-sockets.js'

let directory: string
let plugins: string
let sockets: KubeletSockets
let clock: ManualClock
const open: (() => unknown)[] = []

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-k-'))
  clock = new ManualClock()
  plugins = path.join(directory, 'p')
  await mkdir(plugins)
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
  await rm(directory, { recursive: true, force: true })
})

async function kubelet(
  register: (request: RegisterRequest, answer: sendUnaryData<object>) => void,
): Promise<void> {
  const server = await grpcServer(path.join(plugins, 'kubelet.sock'), RegistrationService, {
    register: (call: { request: RegisterRequest }, answer: sendUnaryData<object>) =>
      register(call.request, answer),
  })
  open.unshift(() => server.forceShutdown())
}

function listen(socket: string): Promise<NetServer> {
  const server = createServer()
  open.unshift(() => server.close())
  return new Promise((resolve) => server.listen(socket, () => resolve(server)))
}

/** The socket of a killed process: a file without a listener. */
async function deadSocket(socket: string): Promise<void> {
  const child: ChildProcess = spawn(process.execPath, [
    '-e',
    `require('net').createServer().listen(${JSON.stringify(socket)}, () => console.log('up'))`,
  ])
  await new Promise((resolve) => child.stdout?.once('data', resolve))
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}

describe('the sockets of a kubelet', () => {
  it('A23 are cleared of the sockets of a dead agent, and of no others', async () => {
    await deadSocket(path.join(plugins, 'akri-dead.sock'))
    await deadSocket(path.join(plugins, 'other-dead.sock'))
    await listen(path.join(plugins, 'akri-alive.sock'))
    await writeFile(path.join(plugins, 'akri-file.sock'), 'no socket')
    await writeFile(path.join(plugins, 'kubelet_internal_checkpoint'), '{}')
    await sockets.open()
    expect((await readdir(plugins)).sort()).toEqual([
      'akri-alive.sock',
      'akri-file.sock',
      'kubelet_internal_checkpoint',
      'other-dead.sock',
    ])
  })

  it('accept a registration with the fields that the kubelet needs', async () => {
    let asked: RegisterRequest | undefined
    await kubelet((request, answer) => {
      asked = request
      answer(null, {})
    })
    await sockets.register('akri.sh/cam', 'akri-cam.sock', new AbortController().signal)
    expect(asked).toEqual({
      version: 'v1beta1',
      endpoint: 'akri-cam.sock',
      resourceName: 'akri.sh/cam',
      options: { preStartRequired: false, getPreferredAllocationAvailable: true },
    })
  })

  it('report why a registration failed, as a transient error', async () => {
    await expect(
      sockets.register('akri.sh/cam', 'akri-cam.sock', new AbortController().signal),
    ).rejects.toMatchObject({
      code: 'AKRI_ERR_KUBELET_UNAVAILABLE',
      kind: 'transient',
      message: expect.stringMatching(/kubelet\.sock: there is no such socket \(ENOENT\)/),
    })
    const details = 'the version is not supported'
    await kubelet((_, answer) => answer({ code: status.INVALID_ARGUMENT, details }))
    await expect(
      sockets.register('akri.sh/cam', 'akri-cam.sock', new AbortController().signal),
    ).rejects.toMatchObject({
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
    await expect(sockets.register('akri.sh/cam', 'akri-cam.sock', stop.signal)).rejects.toThrow(
      /CANCELLED/,
    )
  })

  it('A21 report a kubelet that recreated its socket, also with its inode, only', async () => {
    const [socket, aside] = [path.join(plugins, 'kubelet.sock'), path.join(directory, 'aside.sock')]
    await listen(socket)
    await link(socket, aside)
    const { ino, ctimeMs } = await stat(socket)
    await sockets.open()
    const [restarted, looked] = [vi.fn(), vi.fn()]
    sockets.onRestart(restarted, new AbortController().signal)
    sockets.onDirectoryRead(looked, new AbortController().signal)
    await listen(path.join(plugins, 'new.sock'))
    await eventually(async () => {
      await clock.advance(1000)
      expect(looked).toHaveBeenCalledWith(new Set(['kubelet.sock', 'new.sock']))
    })
    expect(restarted).not.toHaveBeenCalled()
    await rm(socket)
    await rename(aside, socket)
    const recreated = await stat(socket)
    expect(recreated.ino).toBe(ino)
    expect(recreated.ctimeMs).toBeGreaterThan(ctimeMs)
    // An event reports it: the time of the next look without an event does not come.
    await eventually(() => expect(restarted).toHaveBeenCalledTimes(1))
  })

  /** Lets the sockets be looked at so many times, each ten seconds, and waits for the last look. */
  const looks = async (count: number) => {
    for (let look = 0; look < count; look++) {
      await clock.untilSleeping()
      await clock.advance(10_000)
    }
    await clock.untilSleeping()
  }

  it('end the agent after a minute in which the socket of the kubelet refuses', async () => {
    const socket = path.join(plugins, 'kubelet.sock')
    await deadSocket(socket)
    await sockets.open()
    const ended = vi.fn()
    void sockets.gone.then(ended)
    await looks(1)
    expect(sockets.problem).toBe(`${socket} refuses connections`)
    await looks(5)
    // A kubelet that restarts: the minute begins again with the next refusal.
    await rm(socket)
    await listen(socket)
    await looks(7)
    expect(sockets.problem).toBeUndefined()
    await rm(socket)
    await deadSocket(socket)
    await looks(2)
    expect(ended).not.toHaveBeenCalled()
    await looks(7)
    expect(ended.mock.calls).toEqual([
      [expect.objectContaining({ code: 'AKRI_ERR_KUBELET_GONE', kind: 'transient' })],
    ])
  })

  it('end the agent at once if the directory was replaced, as a container sees it', async () => {
    // Like the mount of a container, an open directory stays the old one.
    const old = await openFile(plugins)
    open.unshift(() => old.close())
    sockets = new KubeletSockets({
      pluginDirectory: `/proc/self/fd/${old.fd}`,
      podResourcesSocket: path.join(directory, 'r.sock'),
      clock,
      log: silentLogger,
    })
    await sockets.open()
    await rm(plugins, { recursive: true })
    await mkdir(plugins)
    await looks(1)
    const { message } = await sockets.gone
    expect(message).toContain('was deleted or replaced on the node')
    expect(sockets.problem).toBeDefined()
  })

  it.for([
    ['EMFILE', 'max_inotify_instances'],
    ['ENOSPC', 'max_inotify_watches'],
  ] as const)(
    'A21 are polled, with one warning, without watches (%s)',
    async ([code, limit], { skip }) => {
      const missing = missingForNoWatches()
      if (missing !== undefined) skip(missing)
      const script = `
      import { rename, writeFile } from 'node:fs/promises'
      import { createServer } from 'node:net'
      import path from 'node:path'
      import { setImmediate } from 'node:timers/promises'
      import { silentLogger, systemClock } from '@akrijs/runtime'
      import { KubeletSockets } from './kubelet-sockets.js'
      const plugins = ${JSON.stringify(plugins)}
      const warnings = []
      const sockets = new KubeletSockets({
        pluginDirectory: plugins,
        podResourcesSocket: path.join(plugins, 'r.sock'),
        clock: { ...systemClock, sleep: () => setImmediate() },
        log: {
          ...silentLogger,
          warn: ({ err, ...fields }, message) => warnings.push([err.code, fields, message]),
        },
      })
      const servers = []
      const listen = async (name) => {
        const server = createServer()
        servers.push(server)
        await new Promise((resolve) => server.listen(path.join(plugins, name), resolve))
      }
      await listen('kubelet.sock')
      await sockets.open()
      const { signal } = new AbortController()
      for (let read = 0; read < 3; read++)
        await new Promise((resolve) => sockets.onDirectoryRead(resolve, signal))
      const restarted = new Promise((resolve) => sockets.onRestart(resolve, signal))
      await listen('new.sock')
      await rename(path.join(plugins, 'new.sock'), path.join(plugins, 'kubelet.sock'))
      await restarted
      await sockets.close()
      for (const server of servers) server.close()
      console.log(JSON.stringify(warnings))`
      const place = { resolveDir: import.meta.dirname, directory }
      const warnings = await runScript(withoutWatches(limit), script, place)
      expect(warnings).toEqual([
        [code, { pollMs: 2000 }, 'kubelet directory not watched, and polled instead'],
      ])
    },
  )
})
