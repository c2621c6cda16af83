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

/** Records an Event, and lets the recorder write. */
async function record(event: Partial<ObjectEvent> = {}, uid = 'u1'): Promise<void> {
  recorder.record({ ...lost, ...event }, uid)
  await clock.advance(0)
}

describe('an event', () => {
  it('is written into the namespace of its object, in the form that kubectl shows', async () => {
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

  it('can regard an object of another API, by its uid', async () => {
    const key = objectKey('lab', 'broker')
    await record({ regarding: { apiVersion: 'v1', kind: 'Pod', key, uid: 'of the Pod' } })
    expect(written().map(({ involvedObject }) => involvedObject)).toEqual([
      { apiVersion: 'v1', kind: 'Pod', namespace: 'lab', name: 'broker', uid: 'of the Pod' },
    ])
  })

  it.each([
    ['a'.repeat(253), /^a{236}\.[0-9a-f]{16}$/],
    [`${'a'.repeat(235)}.-${'b'.repeat(16)}`, /^a{235}\.[0-9a-f]{16}$/],
  ])(
    'has a name that the API takes, also of an object with the name %s',
    async (name, expected) => {
      await record({ regarding: { kind: 'Instance', key: objectKey('lab', name) } })
      expect(written()).toMatchObject([
        { metadata: { name: expect.stringMatching(expected) }, involvedObject: { name } },
      ])
    },
  )

  it('with a message that is too long for the API is cut', async () => {
    await record({ message: 'x'.repeat(2000) })
    expect(messages()).toEqual([`${'x'.repeat(1021)}…`])
  })

  it('has no control characters, and no line that passes for one of kubectl', async () => {
    await record({ message: 'camera \u001b[2J\u202eeno\ud800\nnode-b  Normal  Ready' })
    expect(messages()).toEqual(['camera \ufffd[2J\ufffdeno\ufffd\n| node-b  Normal  Ready'])
  })

  it('that the server refuses is reported and dropped; the next Event is written', async () => {
    refuse(403)
    await record()
    expect(errors).toMatchObject([{ status: 403 }])
    server.refusal = () => undefined
    await record({ message: 'another' })
    expect(messages()).toEqual(['another'])
    await record()
    // The refused Event is not remembered.
    expect(messages()).toEqual(['another', lost.message])
    expect(errors).toHaveLength(1)
  })
})

describe('an event that repeats itself', () => {
  it('is a single Event with a higher count and a later time', async () => {
    await record()
    await clock.advance(60_000)
    await record()
    await record()
    expect(written()).toMatchObject([
      { count: 3, firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:01:00Z' },
    ])
    expect(methods()).toEqual(['POST', 'PATCH', 'PATCH'])
  })

  it('is one Event for half an hour after its last repetition, if clocks jump too', async () => {
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
    ['an object that was recreated', {}, 'u2'],
    ['another type', { type: 'Normal' }],
    ['another reason', { reason: 'Other' }],
    ['another message', { message: 'node-b does not see it any more' }],
  ])('is a separate Event for %s', async (_what, other, uid) => {
    await record()
    await record(other, uid)
    expect(counts()).toEqual([1, 1])
  })

  it('is a new Event if the server has deleted the old Event', async () => {
    await record()
    for (const path of [...server.objects.keys()]) server.remove(path)
    await record()
    expect(methods()).toEqual(['POST', 'PATCH', 'POST'])
    expect(counts()).toEqual([1])
    await record()
    expect(counts()).toEqual([2])
    expect(errors).toEqual([])
  })

  it('is not created twice if its count cannot be written', async () => {
    await record()
    refuse(500)
    await record()
    expect(methods()).toEqual(['POST', 'PATCH'])
    expect(errors).toMatchObject([{ status: 500 }])
    server.refusal = () => undefined
    await record()
    expect(counts()).toEqual([3])
  })

  it('is remembered among the last 200 Events', async () => {
    const say = async (n: number) => record({ message: String(n) })
    for (let n = 0; n <= 200; n++) {
      // As fast as the budget allows.
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
  it('are dropped: 25 are written at once, and then an Event every ten seconds', async () => {
    for (let n = 0; n < 100; n++) await record({ message: String(n) })
    expect(messages()).toEqual(Array.from({ length: 25 }, (_, n) => String(n)))
    await clock.advance(9999)
    await record({ message: 'early' })
    expect(server.objects.size).toBe(25)
    await clock.advance(1)
    await record({ message: 'in time' })
    await record({ message: 'too many' })
    await clock.advance(600_000)
    // A dropped Event does not wait for the budget: old news helps no one.
    expect(messages().slice(25)).toEqual(['in time'])
    for (let n = 100; n < 200; n++) await record({ message: String(n) })
    expect(server.objects.size).toBe(26 + 25)
  })

  it('have a budget of their own if they repeat, and no repetition is lost', async () => {
    for (let n = 0; n < 100; n++) await record()
    expect(counts()).toEqual([26])
    expect(methods()).toHaveLength(26)
    for (let n = 0; n < 24; n++) await record({ message: String(n) })
    expect(server.objects.size).toBe(25)
    await clock.advance(10_000)
    await record()
    expect(counts()[0]).toBe(101)
  })

  it('of all namespaces have a wider budget', async () => {
    const of = (n: number) =>
      record({ regarding: { kind: 'Instance', key: objectKey(`ns-${n}`, 'cam') } })
    for (let n = 0; n < 300; n++) await of(n)
    expect(server.objects.size).toBe(100)
    await clock.advance(1000)
    await of(300)
    await of(301)
    expect(server.objects.size).toBe(101)
  })

  it('are dropped if 200 wait for a slow server, or 100 of a namespace', async () => {
    server.before = () => clock.sleep(10_000)
    const of = (namespace: string) => ({ kind: 'Instance', key: objectKey(namespace, 'cam') })
    for (const namespace of ['a', 'b', 'c'])
      for (let n = 0; n < 150; n++)
        recorder.record({ ...lost, regarding: of(namespace), message: `${namespace}${n}` }, 'u1')
    await clock.advance(600 * 10_000)
    const first = (namespace: string) => Array.from({ length: 100 }, (_, n) => `${namespace}${n}`)
    expect(messages()).toEqual([...first('a'), ...first('b')])
    await record({ message: 'later' })
    await clock.advance(10_000)
    expect(messages().at(-1)).toBe('later')
  })
})

describe('the end', () => {
  it('comes while no Event waits', async () => {
    await record()
    stop.abort()
    await ran
    expect(counts()).toEqual([1])
  })

  it('comes while the server does not answer, and is not reported as a failure', async () => {
    server.before = () => new Promise(() => {})
    await record()
    await record({ message: 'another' })
    stop.abort()
    await ran
    expect(errors).toEqual([])
    expect(methods()).toEqual(['POST'])
  })
})
