import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { checked } from '../testing/objects.js'
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
          devices: [checked({ id: 'foo0' })],
        },
      ],
    },
  },
  given: ['cam-8120fe-0', 'cam-8120fe8120fe8120-0'].map((slot, index) => {
    const lost = index === 1 ? ({ lost: true } as const) : {}
    return { slot: slot as SlotName, resourceName: 'akri.sh/cam', id: String(index), ...lost }
  }),
  handlers: [{ name: 'lab', socket: '/var/lib/akri/lab.sock', shared: true, owner: 'user 0' }],
}
const nothing: CheckpointContent = { discovery: {}, given: [], handlers: [] }

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

  it('of an earlier version without slots and handlers is readable', async () => {
    await writeFile(file, JSON.stringify({ version: 1, node: NODE, discovery: content.discovery }))
    expect(await open().load()).toEqual({ ...nothing, discovery: content.discovery })
  })

  it.each([
    ['no slot', { slot: 'cam', resourceName: 'akri.sh/cam', id: '7' }],
    ['no claim', { slot: 'cam-8120fe-0', resourceName: 'akri.sh/cam', id: '7:node-b' }],
    ['nothing', {}],
  ])('is ignored if it names %s', async (_, wrong) => {
    await writeFile(file, JSON.stringify({ version: 1, node: NODE, discovery: {}, given: [wrong] }))
    expect(await open().load()).toEqual(nothing)
  })

  it('is written a moment after a change, together with the changes of that moment', async () => {
    const clock = new ManualClock()
    const checkpoint = open()
    const { signal } = new AbortController()
    let asked = 0
    let now = nothing
    const change = () =>
      checkpoint.saveSoon(
        () => {
          asked++
          return now
        },
        'given',
        { clock, signal },
      )
    change()
    await clock.advance(499)
    now = content
    change()
    expect(asked).toBe(0)
    await clock.advance(1)
    await checkpoint.save(() => content)
    expect(asked).toBe(1)
    expect(await open().load()).toEqual(content)
    change()
    await clock.advance(500)
    expect(asked).toBe(2)
  })

  it('is written a minute after a failure, without another change', async () => {
    const clock = new ManualClock()
    const { signal } = new AbortController()
    const problems: string[] = []
    const observer = { failed: (problem: string) => void problems.push(problem) }
    const missing = path.join(directory, 'missing')
    file = path.join(missing, 'checkpoint.json')
    const checkpoint = new Checkpoint(file, NODE, silentLogger, observer)
    checkpoint.saveSoon(() => content, 'given', { clock, signal })
    await clock.advance(500)
    await eventually(() => expect(clock.sleeping).toEqual([60_000]))
    expect(problems).toEqual(['StateNotWritten'])
    await mkdir(missing)
    await clock.advance(60_000)
    await eventually(async () => expect(await open().load()).toEqual(content))
    expect(problems).toHaveLength(1)
    expect(clock.sleeping).toEqual([])
  })

  /** A checkpoint of so many devices. */
  const large = (count: number): CheckpointContent => {
    const devices = Array.from({ length: count }, (_, index) =>
      checked({ id: `device-${index}`, properties: { A: '"' } }),
    )
    const list = (endpoint: string) => ({ endpoint, shared: false, devices })
    const configurations = ['a', 'b', 'c'].map((name) => {
      const lists = name === 'b' ? [] : ['e', 'f'].map(list)
      return [`default/${name}` as ObjectKey, { uid: name, lists }] as const
    })
    return { ...content, discovery: Object.fromEntries(configurations) }
  }

  it('of many devices is written less often, but soon after an allocation', async () => {
    const clock = new ManualClock()
    const { signal } = new AbortController()
    const checkpoint = open()
    await checkpoint.save(() => large(1000))
    const { size } = await stat(file)
    let asked = 0
    const changed = (what: keyof CheckpointContent) =>
      checkpoint.saveSoon(
        () => {
          asked++
          return content
        },
        what,
        { clock, signal },
      )
    changed('discovery')
    await clock.advance((size / 1000) * 2 - 1)
    expect(asked).toBe(0)
    await clock.advance(1)
    await checkpoint.save(() => large(1000))
    expect(asked).toBe(1)
    changed('discovery')
    changed('given')
    changed('discovery')
    await clock.advance(500)
    await checkpoint.save(() => content)
    expect(asked).toBe(2)
    await clock.advance(100_000)
    expect(asked).toBe(2)
  })

  it('that cannot be read costs the warm start only', async () => {
    await mkdir(file)
    const failed = vi.fn()
    const warn = vi.fn()
    const checkpoint = new Checkpoint(file, NODE, { ...silentLogger, warn }, { failed })
    expect(await checkpoint.load()).toEqual(nothing)
    expect(warn.mock.calls).toMatchObject([[{ err: { code: 'EISDIR' } }, 'checkpoint not read']])
    await checkpoint.save(() => content)
    expect(failed).toHaveBeenCalledTimes(1)
    await rm(file, { recursive: true })
    await checkpoint.save(() => content)
    expect(await open().load()).toEqual(content)
  })

  it('is written again after its content could not be made', async () => {
    const failed = vi.fn()
    const checkpoint = new Checkpoint(file, NODE, silentLogger, { failed })
    await checkpoint.save(() => {
      throw new TypeError('a bug')
    })
    expect(failed).toHaveBeenCalledTimes(1)
    await checkpoint.save(() => content)
    expect(await open().load()).toEqual(content)
  })

  it('leaves out a list that breaks the rules of lists, and keeps the rest', async () => {
    const devices = [{ id: 'a' }, { id: 'a' }]
    const wrong = { endpoint: 'w', shared: true, devices }
    const { uid, lists } = Object.values(content.discovery)[0] ?? { uid: '', lists: [] }
    const discovery = {
      'default/other': { uid: 'u', lists: [wrong] },
      'default/cam': { uid, lists: [wrong, ...lists] },
    }
    const { given, handlers } = content
    await writeFile(file, JSON.stringify({ version: 1, node: NODE, discovery, given, handlers }))
    const warn = vi.fn()
    const checkpoint = new Checkpoint(file, NODE, { ...silentLogger, warn })
    expect(await checkpoint.load()).toEqual({
      discovery: { 'default/other': { uid: 'u', lists: [] }, ...content.discovery },
      given,
      handlers,
    })
    expect(warn.mock.calls).toMatchObject(
      ['default/other', 'default/cam'].map((configuration) => [
        { file, configuration, endpoint: 'w', err: { code: 'AKRI_ERR_INVALID_DEVICE_LIST' } },
        'device list of the checkpoint ignored',
      ]),
    )
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
