import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { checked, NODE } from '../testing/objects.js'
import { Checkpoint, type CheckpointContent } from './checkpoint.js'

const cam = 'default/cam' as ObjectKey
const listOf = (...ids: string[]) => ({
  ...{ endpoint: 'e', shared: true },
  devices: ids.map((id) => checked({ id, properties: { A: '"' } })),
})
const nothing: CheckpointContent = { discovery: {}, given: [], handlers: [] }
const content: CheckpointContent = {
  discovery: { [cam]: { uid: 'u1', lists: [listOf('foo0')] } },
  given: [
    { slot: 'cam-8120fe-0' as SlotName, resourceName: 'akri.sh/cam', id: '0' },
    { slot: 'cam-8120fe8120fe8120-0' as SlotName, resourceName: 'akri.sh/c', id: '1', lost: true },
  ],
  handlers: [{ name: 'lab', socket: '/var/lib/akri/lab.sock', shared: true, owner: 'user 0' }],
}

let directory: string
let file: string
let clock: ManualClock
/** What the agent saves. */
let now: CheckpointContent
/** How often it was asked for. */
let asked: number
const [failed, info, warn] = [vi.fn(), vi.fn(), vi.fn()]

beforeEach(async () => {
  directory = await temporaryDirectory()
  file = path.join(directory, 'checkpoint.json')
  clock = new ManualClock()
  now = content
  asked = 0
  vi.clearAllMocks()
})
const current = () => {
  asked++
  return now
}
const open = (node = NODE) =>
  new Checkpoint({ file, node, log: { ...silentLogger, info, warn }, observer: { failed } })
const load = () => open().load()
const write = (text: object) => writeFile(file, JSON.stringify({ version: 1, node: NODE, ...text }))
const saveSoon = (checkpoint: Checkpoint, changed: keyof CheckpointContent) =>
  checkpoint.saveSoon(current, changed, { clock, signal: new AbortController().signal })

describe('the checkpoint', () => {
  it('A2 returns the saved content, also that of an earlier version', async () => {
    await open().save(current)
    expect(await load()).toEqual(content)
    const { discovery } = content
    await write({ discovery })
    expect(await load()).toEqual({ ...nothing, discovery })
  })

  it('of another node is not corrupt: the log names it, and a save replaces it', async () => {
    await open().save(current)
    const other = open('node-b' as NodeName)
    expect(await other.load()).toEqual(nothing)
    const fields = { file, node: 'node-b', of: NODE }
    expect(info.mock.calls).toEqual([[fields, 'checkpoint of another node ignored']])
    expect(warn).not.toHaveBeenCalled()
    await other.save(current)
    expect(await other.load()).toEqual(content)
    expect(await readdir(directory)).toEqual(['checkpoint.json'])
  })

  it.each([
    ['no slot', { slot: 'cam', resourceName: 'akri.sh/cam', id: '7' }],
    ['no claim', { slot: 'cam-8120fe-0', resourceName: 'akri.sh/cam', id: '7:node-b' }],
    ['nothing', {}],
  ])('is ignored, and moved aside, if it names %s', async (_, wrong) => {
    await write({ discovery: {}, given: [wrong] })
    expect(await load()).toEqual(nothing)
    const fields = { file, movedTo: expect.stringContaining(`${file}.corrupt-`) }
    expect(warn.mock.calls).toMatchObject([[fields, 'unusable checkpoint ignored']])
  })

  it('leaves out a list that breaks the rules of lists, and keeps the rest', async () => {
    const wrong = { endpoint: 'w', shared: true, devices: [{ id: 'a' }, { id: 'a' }] }
    const discovery = { [cam]: { uid: 'u1', lists: [wrong, listOf('foo0')] } }
    await write({ ...content, discovery })
    expect(await load()).toEqual(content)
    const err = { code: 'AKRI_ERR_INVALID_DEVICE_LIST' }
    expect(warn.mock.calls).toMatchObject([
      [{ file, configuration: cam, endpoint: 'w', err }, 'device list of the checkpoint ignored'],
    ])
  })

  it('that cannot be read, made or written costs the warm start only', async () => {
    await mkdir(file)
    const checkpoint = open()
    expect(await checkpoint.load()).toEqual(nothing)
    expect(warn.mock.calls).toMatchObject([[{ err: { code: 'EISDIR' } }, 'checkpoint not read']])
    expect(await checkpoint.save(current)).toBe(false)
    const bug = () => {
      throw new TypeError('a bug')
    }
    expect(await checkpoint.save(bug)).toBe(false)
    expect(failed.mock.calls.map(([problem]) => problem)).toEqual(Array(2).fill('StateNotWritten'))
    await rm(file, { recursive: true })
    expect(await checkpoint.save(current)).toBe(true)
    expect(await load()).toEqual(content)
  })

  it('is written a moment after a change, together with the changes of that moment', async () => {
    const checkpoint = open()
    now = nothing
    saveSoon(checkpoint, 'given')
    await clock.advance(499)
    now = content
    saveSoon(checkpoint, 'given')
    expect(asked).toBe(0)
    await clock.advance(1)
    await eventually(async () => expect(await load()).toEqual(content))
    expect(asked).toBe(1)
    saveSoon(checkpoint, 'given')
    await clock.advance(500)
    await eventually(() => expect(asked).toBe(2))
  })

  it('is written a minute after a failure, without another change', async () => {
    const missing = path.join(directory, 'missing')
    file = path.join(missing, 'checkpoint.json')
    saveSoon(open(), 'given')
    await clock.advance(500)
    await eventually(() => expect(clock.sleeping).toEqual([60_000]))
    await mkdir(missing)
    await clock.advance(60_000)
    await eventually(async () => expect(await load()).toEqual(content))
    expect(failed.mock.calls.map(([problem]) => problem)).toEqual(['StateNotWritten'])
    expect(clock.sleeping).toEqual([])
  })

  it('of many devices is written less often, but soon after an allocation', async () => {
    const many = Array.from({ length: 4000 }, (_, index) => `device-${index}`)
    now = { ...content, discovery: { [cam]: { uid: 'u1', lists: [listOf(...many)] } } }
    const checkpoint = open()
    await checkpoint.save(current)
    const { size } = await stat(file)
    saveSoon(checkpoint, 'discovery')
    await clock.advance((size / 1000) * 2 - 1)
    expect(asked).toBe(1)
    await clock.advance(1)
    await checkpoint.save(current)
    expect(asked).toBe(3)
    for (const changed of ['discovery', 'given', 'discovery'] as const)
      saveSoon(checkpoint, changed)
    await clock.advance(500)
    await checkpoint.save(current)
    await clock.advance(100_000)
    expect(asked).toBe(5)
  })

  it('is written once for many changes, with the last state, and only for changes', async () => {
    const checkpoint = open()
    now = nothing
    const saved = Array.from({ length: 100 }, () => checkpoint.save(current))
    now = content
    await Promise.all(saved)
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ given: content.given })
    const { ino } = await stat(file)
    await checkpoint.save(current)
    expect((await stat(file)).ino).toBe(ino)
  })
})
