import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, rename, symlink } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { StateFileError, StateLockedError } from '../errors.js'
import { runningAgent } from './running-agent.mjs'
import { lockState } from './state-lock.js'

let directory: string

beforeEach(async () => {
  directory = await temporaryDirectory()
})

it('reports the process that uses a state directory, and what to do', async () => {
  expect(await runningAgent(path.join(directory, 'absent'))).toBeUndefined()
  expect(await runningAgent(directory)).toBeUndefined()
  const lock = await lockState(directory)
  const agent = await runningAgent(directory)
  expect(agent).toMatch(
    new RegExp(
      `^pid ${process.pid} runs since \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d; ` +
        'stop it, or choose another directory with --state-dir$',
    ),
  )
  await expect(lockState(directory)).rejects.toThrow(`another agent uses ${directory}: ${agent}`)
  await lock.release()
  expect(await runningAgent(directory)).toBeUndefined()
  await (await lockState(directory)).release()
})

it('locks a state directory for all of its paths, also for long ones', async () => {
  const long = path.join(directory, 'x'.repeat(200))
  const link = path.join(directory, 'link')
  await mkdir(long)
  await symlink(long, link)
  const lock = await lockState(long)
  for (const other of [long, `${long}/`, path.relative('', long), link]) {
    const refused = await lockState(other).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(StateLockedError)
    expect(String(refused)).toContain(`another agent uses ${other}`)
    expect(String(refused)).not.toContain('/proc/')
  }
  await lock.release()
  expect(await readdir(long)).toEqual([])
  await (await lockState(link)).release()
})

it('is released by kill -9 of its holder', async () => {
  const file = path.join(directory, 'lock.sock')
  const program =
    `require('net').createServer((socket) => socket.end()).listen(${JSON.stringify(file)}, ` +
    `() => console.log('locked'))`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  // An agent of before gives no answer.
  await expect(lockState(directory)).rejects.toThrow(`${directory}: it gives no answer; stop it`)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await (await lockState(directory)).release()
})

it('admits one of two agents that start at the same time after a kill -9', async () => {
  for (let round = 0; round < 200; round++) {
    // A socket without a server: the server removes only the first name.
    const server = net.createServer().listen(path.join(directory, 'first'))
    await once(server, 'listening')
    await rename(path.join(directory, 'first'), path.join(directory, 'lock.sock'))
    server.close()
    await once(server, 'close')
    const both = await Promise.allSettled([lockState(directory), lockState(directory)])
    const locks = both.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    expect(locks).toHaveLength(1)
    await expect(lockState(directory)).rejects.toThrow(StateLockedError)
    for (const lock of locks) await lock.release()
  }
})

it('reports a directory that cannot be written, and names no other agent', async () => {
  const rejected = expect(lockState('/proc/self')).rejects
  await rejected.toThrow(StateFileError)
  await rejected.toThrow('/proc/self cannot be written')
})
