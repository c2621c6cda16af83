import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { silentLogger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import type { MessageSource, Uevent } from './device-monitor.js'
import { UeventSocketError, type UeventSocketListener } from './uevent-socket.js'
import { readUevents } from './uevent-source.js'

const POLL_MS = 7000

let clock: ManualClock
let stop: AbortController
let runUdevRoot: string
/** The open sockets. */
let sockets: Map<MessageSource, UeventSocketListener>
/** The number of attempts to open a socket. */
let asked: number
/** The sources without a socket, with the reason. */
let unavailable: Map<MessageSource, string>
let canHear: boolean
let warnings: unknown[]
let infos: string[]
/** Why changes are found late. */
let problems: (string | undefined)[]
let events: Uevent[]
let rescans: string[]

beforeEach(async () => {
  clock = new ManualClock()
  stop = new AbortController()
  runUdevRoot = await temporaryDirectory()
  sockets = new Map()
  asked = 0
  unavailable = new Map()
  canHear = true
  warnings = []
  infos = []
  problems = []
  events = []
  rescans = []
})

afterEach(async () => {
  stop.abort()
  await clock.advance(0)
})

function openSocket(source: MessageSource, listener: UeventSocketListener): () => void {
  asked++
  const reason = unavailable.get(source)
  if (reason !== undefined) throw new UeventSocketError(reason)
  sockets.set(source, listener)
  return () => {
    if (sockets.get(source) === listener) sockets.delete(source)
  }
}

function feed(): () => void {
  const log = {
    ...silentLogger,
    warn: (fields: object, message: string) => warnings.push({ ...fields, message }),
    info: (_fields: object, message: string) => infos.push(message),
  }
  const follower = {
    add: (event: Uevent) => events.push(event),
    rescan: (reason: string) => rescans.push(reason),
  }
  const onProblem = (problem: string | undefined) => void problems.push(problem)
  return readUevents({ log, clock, runUdevRoot, onProblem }, follower, stop.signal, {
    pollMs: POLL_MS,
    openSocket,
    canHear: () => canHear,
  })
}

const uevent = (source: MessageSource, number: number): Uevent => ({
  source,
  action: 'add',
  devpath: `/devices/${number}`,
  properties: new Map([['SEQNUM', `${number}`]]),
})

/** Sends an event to the listener of a socket. */
const send = (source: MessageSource, number: number) =>
  sockets.get(source)?.onEvent(uevent(source, number))
const lose = (source: MessageSource, reason: string, broken: boolean) =>
  sockets.get(source)?.onLost(reason, broken)

describe('the source of device events', () => {
  it('opens its sockets before it returns', () => {
    feed()
    expect([...sockets.keys()]).toEqual(['udev', 'kernel'])
  })

  it('reports events of the kernel and of udevd', async () => {
    feed()
    send('kernel', 1)
    send('udev', 1)
    expect(events).toEqual([uevent('kernel', 1), uevent('udev', 1)])
  })

  it('polls with a warning where the kernel sends no events, and reads sockets too', async () => {
    canHear = false
    feed()
    expect(warnings).toEqual([
      {
        pollMs: POLL_MS,
        message: 'device events do not reach this user namespace, polling instead',
      },
    ])
    expect([...sockets.keys()]).toEqual(['udev', 'kernel'])
    // The kernel sends the events of the links of this namespace.
    send('kernel', 1)
    expect([events, rescans]).toEqual([[uevent('kernel', 1)], []])
    await clock.advance(3 * POLL_MS)
    expect(rescans).toEqual(Array(3).fill('the poll interval is over'))
    expect(warnings).toHaveLength(1)
    expect(problems.at(-1)).toBe('device events do not reach this user namespace, polling instead')
  })

  it('finds again whether events of udevd arrive, also if the sockets have a problem', async () => {
    const ELSEWHERE = 'events of udevd do not reach this network namespace, reading its database'
    const control = path.join(runUdevRoot, 'control')
    const check = feed()
    expect(problems.at(-1)).toBeUndefined()
    // udevd starts in another network namespace: no socket of this namespace has the path.
    await writeFile(control, '')
    check()
    check()
    expect([problems.at(-1), infos]).toEqual([ELSEWHERE, [ELSEWHERE]])
    unavailable.set('kernel', 'not here')
    lose('kernel', 'error 5', true)
    await clock.advance(1000)
    expect(problems.at(-1)).toBe('device events unavailable, polling instead')
    await rm(control)
    check()
    expect(problems.at(-1)).toBe('device events unavailable, polling instead')
    const udevd = net.createServer().listen(control)
    onTestFinished(() => void udevd.close())
    await once(udevd, 'listening')
    check()
    unavailable.clear()
    await clock.advance(POLL_MS)
    expect(problems.at(-1)).toBeUndefined()
    expect(infos).toEqual([ELSEWHERE, 'no udevd runs in another network namespace'])
  })

  it.each(['kernel', 'udev'] as const)(
    'rescans after lost events of %s, and keeps its sockets',
    async (source) => {
      feed()
      lose(source, 'more than the buffer holds', false)
      expect(rescans).toEqual([`events of ${source} were lost: more than the buffer holds`])
      await clock.advance(5000)
      expect([rescans.length, asked]).toEqual([1, 2])
      send('kernel', 1)
      expect(events).toEqual([uevent('kernel', 1)])
    },
  )

  it('opens its sockets again a second after a failure, and then rescans', async () => {
    feed()
    lose('kernel', 'error 5', true)
    expect(rescans).toEqual(['events of kernel were lost: error 5'])
    await clock.advance(999)
    expect([rescans.length, asked]).toEqual([1, 2])
    await clock.advance(1)
    expect(rescans.slice(1)).toEqual(['the event sockets are opened again'])
    expect(asked).toBe(4)
    send('kernel', 1)
    expect(events).toEqual([uevent('kernel', 1)])
    expect(warnings).toEqual([])
  })

  it.each(['kernel', 'udev'] as const)(
    'polls without a socket for %s, with one warning',
    async (source) => {
      unavailable.set(source, 'not here')
      feed()
      expect(warnings).toEqual([
        {
          err: expect.objectContaining({ message: 'not here' }),
          pollMs: POLL_MS,
          message: 'device events unavailable, polling instead',
        },
      ])
      expect(sockets.has(source)).toBe(false)
      await clock.advance(POLL_MS - 1)
      expect(rescans).toEqual([])
      await clock.advance(1)
      expect(rescans).toEqual(['the poll interval is over'])
      await clock.advance(9 * POLL_MS)
      expect(rescans).toEqual(Array(10).fill('the poll interval is over'))
      expect(warnings).toHaveLength(1)
    },
  )

  it('stops polling after the sockets open', async () => {
    unavailable.set('kernel', 'not yet')
    feed()
    await clock.advance(POLL_MS)
    expect(problems.at(-1)).toBe('device events unavailable, polling instead')
    unavailable.clear()
    await clock.advance(POLL_MS)
    expect(rescans).toHaveLength(2)
    expect(sockets.size).toBe(2)
    await clock.advance(10 * POLL_MS)
    expect(rescans).toHaveLength(2)
  })

  it.each([
    ['it listens', () => feed()],
    [
      'a socket is broken',
      () => {
        feed()
        lose('kernel', 'error 5', true)
      },
    ],
    [
      'it looks again and again',
      () => {
        unavailable.set('kernel', 'not here')
        feed()
      },
    ],
  ])(
    'ends with its signal and leaves no socket or timer behind, also while %s',
    async (_, happens) => {
      happens()
      await clock.advance(0)
      const before = rescans.length
      stop.abort()
      await clock.advance(100_000)
      expect([sockets.size, clock.sleeping, rescans.length]).toEqual([0, [], before])
    },
  )
})
