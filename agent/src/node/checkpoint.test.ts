import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Checkpoint, type CheckpointContent } from './checkpoint.js'

const NODE = 'node-a' as NodeName
const content: CheckpointContent = {
  discovery: {
    ['default/cam' as ObjectKey]: {
      uid: 'u1',
      lists: [
        {
          endpoint: 'e',
          shared: true,
          devices: [{ id: 'foo0', properties: {}, mounts: [], deviceSpecs: [] }],
        },
      ],
    },
  },
  given: [{ slot: 'cam-8120fe-0' as SlotName, resourceName: 'akri.sh/cam', id: '7' }],
}
const nothing: CheckpointContent = { discovery: {}, given: [] }

let directory: string
let file: string

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-checkpoint-'))
  file = path.join(directory, 'checkpoint.json')
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const open = (node = NODE) => new Checkpoint(file, node, silentLogger)

describe('the checkpoint', () => {
  it('A2 returns the saved content to the agent of the same node only', async () => {
    await open().save(() => content)
    expect(await open().load()).toEqual(content)
    expect(await open('node-b' as NodeName).load()).toEqual(nothing)
  })

  it('of another node is not corrupt: the log names it, and a save replaces it', async () => {
    await open().save(() => content)
    const logged: unknown[] = []
    const note = (fields: object, message: string) => void logged.push({ ...fields, message })
    const other = new Checkpoint(file, 'node-b' as NodeName, {
      ...silentLogger,
      info: note,
      warn: note,
    })
    expect(await other.load()).toEqual(nothing)
    expect(logged).toEqual([
      {
        file,
        node: 'node-b',
        of: NODE,
        message: 'checkpoint of another node ignored',
      },
    ])
    await other.save(() => content)
    expect(await other.load()).toEqual(content)
    expect(await readdir(directory)).toEqual(['checkpoint.json'])
  })

  it('of an earlier version without slots is readable', async () => {
    await writeFile(file, JSON.stringify({ version: 1, node: NODE, discovery: content.discovery }))
    expect(await open().load()).toEqual({ ...content, given: [] })
  })

  it.each([
    ['no slot', { slot: 'cam', resourceName: 'akri.sh/cam', id: '7' }],
    ['no claim', { slot: 'cam-8120fe-0', resourceName: 'akri.sh/cam', id: '7:node-b' }],
    ['nothing', {}],
  ])('is ignored if it names %s', async (_, wrong) => {
    await writeFile(file, JSON.stringify({ version: 1, node: NODE, discovery: {}, given: [wrong] }))
    expect(await open().load()).toEqual(nothing)
  })

  it('is written once for many changes, with the last state, and only for changes', async () => {
    const checkpoint = open()
    let asked = 0
    let now = nothing
    const saved = Promise.all(
      Array.from({ length: 100 }, () =>
        checkpoint.save(() => {
          asked++
          return now
        }),
      ),
    )
    now = content
    await saved
    expect(asked).toBe(1)
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ given: content.given })
    const { ino } = await stat(file)
    await checkpoint.save(() => content)
    expect((await stat(file)).ino).toBe(ino)
  })
})
