import { execFileSync } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { InvalidHandlerError, serve, silentLogger } from '@akrijs/sdk'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { createDebugEcho, optionsFromEnvironment } from './debug-echo.js'

let directory: string
let agent: SimulatedAgent

const options = () => ({ directory, log: silentLogger })

beforeEach(async () => {
  directory = await temporaryDirectory()
  agent = await SimulatedAgent.start({ directory })
})

afterEach(async () => {
  await agent.close()
})

describe('debugEcho', () => {
  it('finds a device for each description, and none while the file contains OFFLINE', async () => {
    const availabilityFile = path.join(directory, 'availability.txt')
    const server = await serve(createDebugEcho({ availabilityFile, intervalMs: 10 }), options())
    try {
      const session = await agent.discover('debugEcho', { details: 'descriptions: [foo0, foo1]' })
      const found = [
        { id: 'foo0', properties: { DEBUG_ECHO_DESCRIPTION: 'foo0' } },
        { id: 'foo1', properties: { DEBUG_ECHO_DESCRIPTION: 'foo1' } },
      ]
      expect(await session.next()).toMatchObject(found)
      await writeFile(availabilityFile, 'it is OFFLINE now\n')
      expect(await session.next()).toEqual([])
      await writeFile(availabilityFile, 'ONLINE')
      expect(await session.next()).toMatchObject(found)
      await session.close()
    } finally {
      await server.close()
    }
  })

  it('notices the file in a directory that did not exist', async () => {
    const availabilityFile = path.join(directory, 'later/availability.txt')
    const server = await serve(createDebugEcho({ availabilityFile, intervalMs: 10 }), options())
    try {
      const session = await agent.discover('debugEcho', { details: 'descriptions: [foo]' })
      expect(await session.next()).toHaveLength(1)
      await mkdir(path.dirname(availabilityFile))
      await writeFile(availabilityFile, 'OFFLINE')
      expect(await session.next()).toEqual([])
      await rm(availabilityFile)
      expect(await session.next()).toHaveLength(1)
      await session.close()
    } finally {
      await server.close()
    }
  })

  it('treats a FIFO as an absent file, and does not wait for a writer', async () => {
    const availabilityFile = path.join(directory, 'fifo')
    execFileSync('mkfifo', [availabilityFile])
    const server = await serve(createDebugEcho({ availabilityFile, intervalMs: 10 }), options())
    try {
      const session = await agent.discover('debugEcho', { details: 'descriptions: [foo]' })
      expect(await session.next()).toHaveLength(1)
      await rm(availabilityFile)
      await writeFile(availabilityFile, 'OFFLINE')
      expect(await session.next()).toEqual([])
      await session.close()
    } finally {
      await server.close()
    }
  })

  it('names the wrong field of the details', async () => {
    const server = await serve(createDebugEcho(), options())
    try {
      const session = await agent.discover('debugEcho', {
        details: 'descriptions: [1]\nother: true',
      })
      await expect(session.next()).rejects.toThrow(/INVALID_ARGUMENT.*descriptions/s)
    } finally {
      await server.close()
    }
  })

  it('is shared unless the environment has false, and refuses other values', () => {
    expect(optionsFromEnvironment({})).toEqual({ shared: true })
    expect(optionsFromEnvironment({ DEBUG_ECHO_INSTANCES_SHARED: 'true' })).toEqual({
      shared: true,
    })
    expect(optionsFromEnvironment({ DEBUG_ECHO_INSTANCES_SHARED: 'false' })).toEqual({
      shared: false,
    })
    expect(() => optionsFromEnvironment({ DEBUG_ECHO_INSTANCES_SHARED: 'yes' })).toThrow(
      InvalidHandlerError,
    )
  })

  it('reads the file in the environment variable, and refuses a relative path', () => {
    expect(optionsFromEnvironment({ DEBUG_ECHO_AVAILABILITY_FILE: '/run/a.txt' })).toMatchObject({
      availabilityFile: '/run/a.txt',
    })
    expect(() => optionsFromEnvironment({ DEBUG_ECHO_AVAILABILITY_FILE: 'a.txt' })).toThrow(
      /"a.txt".*absolute/,
    )
  })
})
