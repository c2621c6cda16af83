import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EventRecorder } from './event-recorder.js'
import { type ObjectEvent, objectKey } from './objects.js'
import { FakeApiServer } from './testing/fake-api-server.js'

const MINUTE = 60_000
/** A whole second, in the middle of one. */
const BEGIN = Date.parse('2026-01-01T00:00:00.500Z')

interface Written {
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly involvedObject: { readonly name: string }
  readonly message: string
  readonly count: number
  readonly lastTimestamp: string
}

const lost: ObjectEvent = {
  regarding: { kind: 'Instance', key: objectKey('lab', 'cam-8120fe') },
  type: 'Warning',
  reason: 'DeviceLost',
  message: 'node-a does not see it any more',
}

let clock: ManualClock
let stop: AbortController
let ran: Promise<void>
let recorder: EventRecorder
let errors: unknown[]
let server: FakeApiServer

beforeEach(() => {
  clock = new ManualClock(BEGIN)
  stop = new AbortController()
  errors = []
  server = new FakeApiServer(clock)
  recorder = new EventRecorder({
    client: server.client(),
    clock,
    apiVersion: 'akri.sh/v0',
    onError: (error) => errors.push(error),
    source: 'akri-agent',
    host: 'node-a',
  })
  ran = recorder.run(stop.signal)
})

afterEach(async () => {
  stop.abort()
  await ran
})

const written = () => Array.from(server.objects.values(), (event) => event as unknown as Written)
const methods = () => server.requests.map(({ method }) => method)
const refuse = (status: number) => {
  server.refusal = () => ({ status, message: 'refused' })
}
const counts = () => written().map(({ count }) => count)
const messages = () => written().map(({ message }) => message)

/** Records, and lets happen what follows. */
async function record(event: Partial<ObjectEvent> = {}, uid = 'u1'): Promise<void> {
  recorder.record({ ...lost, ...event }, uid)
  await clock.advance(0)
}

describe('an event', () => {
  it('is written into the namespace of its object, as those are which kubectl shows', async () => {
    await record()
    expect([...server.objects.keys()]).toEqual([
      expect.stringMatching(/^\/api\/v1\/namespaces\/lab\/events\/cam-8120fe\.[0-9a-f]{16}$/),
    ])
    expect(written()).toMatchObject([
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { namespace: 'lab', name: expect.stringMatching(/^cam-8120fe\./) },
        involvedObject: {
          apiVersion: 'akri.sh/v0',
          kind: 'Instance',
          namespace: 'lab',
          name: 'cam-8120fe',
          uid: 'u1',
        },
        type: 'Warning',
        reason: 'DeviceLost',
        message: 'node-a does not see it any more',
        source: { component: 'akri-agent', host: 'node-a' },
        reportingComponent: 'akri-agent',
        reportingInstance: 'node-a',
        count: 1,
        firstTimestamp: '2026-01-01T00:00:00Z',
        lastTimestamp: '2026-01-01T00:00:00Z',
      },
    ])
  })

  it('that says more than the API takes is cut off', async () => {
    await record({ message: 'x'.repeat(2000) })
    expect(messages()).toEqual(['x'.repeat(1024)])
  })

  it('that is recorded before the recorder runs is written once it does', async () => {
    stop.abort()
    await ran
    await record()
    expect(server.objects.size).toBe(0)
    stop = new AbortController()
    ran = recorder.run(stop.signal)
    await clock.advance(0)
    expect(counts()).toEqual([1])
  })

  it('that the server refuses is told, and left out; the next one is written', async () => {
    refuse(403)
    await record()
    expect(errors).toMatchObject([{ status: 403 }])
    server.refusal = () => undefined
    await record({ message: 'another' })
    expect(messages()).toEqual(['another'])
    await record()
    // Not taken for one that is there already.
    expect(messages()).toEqual(['another', lost.message])
    expect(errors).toHaveLength(1)
  })
})

describe('an event that repeats itself', () => {
  it('is one, with a higher count and a later time', async () => {
    await record()
    await clock.advance(60_000)
    await record()
    await record()
    expect(written()).toMatchObject([
      { count: 3, firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:01:00Z' },
    ])
    expect(methods()).toEqual(['POST', 'PATCH', 'PATCH'])
  })

  it('is one for half an hour after it last came, also where somebody sets the clock', async () => {
    await record()
    clock.set(90 * MINUTE)
    for (let hour = 0; hour < 2; hour++) {
      await clock.advance(30 * MINUTE - 1)
      await record()
    }
    expect(counts()).toEqual([3])
    clock.set(-90 * MINUTE)
    await clock.advance(30 * MINUTE)
    await record()
    expect(counts()).toEqual([3, 1])
    await record()
    expect(counts()).toEqual([3, 2])
  })

  it.each<[string, Partial<ObjectEvent>, string?]>([
    ['another object', { regarding: { kind: 'Instance', key: objectKey('lab', 'cam-a19705') } }],
    [
      'an object of another namespace',
      { regarding: { kind: 'Instance', key: objectKey('home', 'cam-8120fe') } },
    ],
    ['another kind', { regarding: { kind: 'Configuration', key: lost.regarding.key } }],
    ['an object that was made anew', {}, 'u2'],
    ['another type', { type: 'Normal' }],
    ['another reason', { reason: 'Other' }],
    ['another message', { message: 'node-b does not see it any more' }],
  ])('is another one of %s', async (_what, other, uid) => {
    await record()
    await record(other, uid)
    expect(counts()).toEqual([1, 1])
  })

  it('is a new one where the server has forgotten it', async () => {
    await record()
    for (const path of [...server.objects.keys()]) server.remove(path)
    await record()
    expect(methods()).toEqual(['POST', 'PATCH', 'POST'])
    expect(counts()).toEqual([1])
    await record()
    expect(counts()).toEqual([2])
    expect(errors).toEqual([])
  })

  it('is not made twice where its count cannot be written', async () => {
    await record()
    refuse(500)
    await record()
    expect(methods()).toEqual(['POST', 'PATCH'])
    expect(errors).toMatchObject([{ status: 500 }])
    server.refusal = () => undefined
    await record()
    expect(counts()).toEqual([3])
  })

  it('is remembered as one of the last 200', async () => {
    const say = async (n: number) => record({ message: String(n) })
    for (let n = 0; n <= 200; n++) {
      // As fast as may be.
      if (n >= 25) await clock.advance(10_000)
      await say(n)
    }
    expect(counts()).toEqual(Array(201).fill(1))
    await clock.advance(30_000)
    await say(1)
    expect(messages().filter((message) => message === '1')).toHaveLength(1)
    await say(0)
    expect(messages().filter((message) => message === '0')).toHaveLength(2)
  })
})

describe('too many events', () => {
  it('are left out: 25 are written at once, and then one in ten seconds', async () => {
    for (let n = 0; n < 100; n++) await record({ message: String(n) })
    expect(messages()).toEqual(Array.from({ length: 25 }, (_, n) => String(n)))
    await clock.advance(9999)
    await record({ message: 'early' })
    expect(server.objects.size).toBe(25)
    await clock.advance(1)
    await record({ message: 'in time' })
    await record({ message: 'too many' })
    await clock.advance(600_000)
    // None of them waits for its turn: old news help nobody.
    expect(messages().slice(25)).toEqual(['in time'])
    for (let n = 100; n < 200; n++) await record({ message: String(n) })
    expect(server.objects.size).toBe(26 + 25)
  })

  it('are as many where they repeat themselves: each is a write', async () => {
    for (let n = 0; n < 100; n++) await record()
    expect(counts()).toEqual([25])
    expect(methods()).toHaveLength(25)
  })

  it('are left out where 200 wait for a slow server', async () => {
    server.before = () => clock.sleep(10_000)
    for (let n = 0; n < 300; n++) recorder.record({ ...lost, message: String(n) }, 'u1')
    await clock.advance(600 * 10_000)
    expect(messages()).toEqual(Array.from({ length: 200 }, (_, n) => String(n)))
    await record({ message: 'later' })
    await clock.advance(10_000)
    expect(messages().at(-1)).toBe('later')
  })
})

describe('the end', () => {
  it('comes while nothing is to be written', async () => {
    await record()
    stop.abort()
    await ran
    expect(counts()).toEqual([1])
  })

  it('comes while the server does not answer, and is no failure', async () => {
    server.before = () => new Promise(() => {})
    await record()
    await record({ message: 'another' })
    stop.abort()
    await ran
    expect(errors).toEqual([])
    expect(methods()).toEqual(['POST'])
  })
})
