import { access, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { type Clock, silentLogger, systemClock } from '@akrijs/runtime'
import { beforeEach, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { startStandalone } from './standalone.js'

let directory: string

beforeEach(async () => {
  directory = await temporaryDirectory()
})

it('a start that fails leaves no timer and no socket', async () => {
  const sleeping = new Set<{ readonly ms: number }>()
  const clock: Clock = {
    ...systemClock,
    async sleep(ms, signal) {
      const sleep = { ms }
      sleeping.add(sleep)
      await systemClock.sleep(ms, signal).finally(() => sleeping.delete(sleep))
    },
  }
  const manifest = path.join(directory, 'lab.yaml')
  await writeFile(manifest, '')
  const options = {
    manifests: [manifest],
    stateDirectory: path.join(directory, 'state'),
    node: 'node-a',
    handlers: [],
    isolated: true,
    // No SDK can be resolved from here: the handlers cannot be started after the agent.
    handlersFrom: directory,
    log: silentLogger,
  }
  await expect(startStandalone(options, clock)).rejects.toThrow('@akrijs/sdk is not installed')
  await eventually(() => expect([...sleeping]).toEqual([]))
  const socket = path.join(directory, 'state/handlers/agent-registration.sock')
  await expect(access(socket)).rejects.toThrow('ENOENT')
})
