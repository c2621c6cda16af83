import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { StateLockedError } from '../errors.js'
import { lockState } from './state-lock.js'

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'akri-lock-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

it('lets one agent at a time work on a state directory', async () => {
  const lock = await lockState(directory)
  await expect(lockState(directory)).rejects.toThrow(StateLockedError)
  await expect(lockState(directory)).rejects.toThrow(`another agent works on ${directory}`)
  await lock.release()
  await (await lockState(directory)).release()
})

it('is free again after kill -9 of its holder', async () => {
  const file = path.join(directory, 'lock.sock')
  const program = `require('net').createServer().listen(${JSON.stringify(file)}, () => console.log('locked'))`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  await expect(lockState(directory)).rejects.toThrow(StateLockedError)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await (await lockState(directory)).release()
})
