import { mkdir, mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { silentLogger } from '@akrijs/runtime'
import { type StandaloneAgent, startStandalone } from '@akrijs/standalone'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..')

let directory: string
let running: StandaloneAgent | undefined

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
})

afterEach(async () => {
  await running?.close()
  running = undefined
})

const file = () => path.join(directory, 'lab.yaml')

const configure = (name: string, description: string) =>
  writeFile(
    file(),
    `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: ${name} }
spec:
  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [${description}]' }
`,
  )

const names = ({ cluster }: StandaloneAgent) =>
  cluster.instances
    .list()
    .map(({ metadata }) => metadata.name as string)
    .sort()

describe('the standalone agent', () => {
  it('applies an edit as soon as its state can be written again', async () => {
    await configure('lab', 'foo0')
    const lines: string[] = []
    const log = {
      ...silentLogger,
      error: (_fields: unknown, message: string) => lines.push(message),
    }
    const agent = await startStandalone({
      manifests: [file()],
      stateDirectory: path.join(directory, 'state'),
      node: 'node-a',
      handlers: ['@akrijs/handler-debug-echo'],
      handlersFrom: root,
      log: { ...log, child: () => log },
    })
    running = agent
    await eventually(() => expect(names(agent)).toEqual(['lab-8120fe']))
    // A rename cannot replace a directory.
    const state = path.join(directory, 'state/cluster.json')
    await rm(state)
    await mkdir(state)
    await configure('other', 'foo1')
    await eventually(() => expect(lines).toContain('manifests not applied'))
    expect(names(agent)).toEqual(['lab-8120fe'])
    await rmdir(state)
    await eventually(() => expect(names(agent)).toEqual(['other-a19705']))
  })
})
