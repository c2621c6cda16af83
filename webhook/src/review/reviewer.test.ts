import { BUNDLED_TYPES, type Compatibility } from '@akrijs/api'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type AdmissionRequest, admissionReview, readAdmissionReview } from './admission-review.js'
import type { Handlers } from './handler-details.js'
import type { NamesInUse } from './names-in-use.js'
import { type FailurePolicy, Reviewer } from './reviewer.js'

const good = {
  apiVersion: 'akri.sh/v0',
  kind: 'Configuration',
  metadata: { name: 'lab', namespace: 'factory' },
  spec: { discoveryHandler: { name: 'sensor' } },
}
const bad = { ...good, spec: { discoveryHandler: {} } }

const noNames: NamesInUse = { problems: async () => [] }

function reviewer({
  names = noNames,
  handlers = new Map(),
  failurePolicy = 'Fail',
  clock = new ManualClock(),
  compatibility = 'off',
  typesAreBundled = false,
}: {
  names?: NamesInUse
  handlers?: Handlers
  failurePolicy?: FailurePolicy
  clock?: ManualClock
  compatibility?: Compatibility
  typesAreBundled?: boolean
} = {}) {
  return new Reviewer({
    types: () => BUNDLED_TYPES,
    typesAreBundled: () => typesAreBundled,
    handlers,
    names,
    failurePolicy,
    compatibility,
    clock,
    log: silentLogger,
  })
}

function request(overrides: Partial<AdmissionRequest>): AdmissionRequest {
  const base = {
    apiVersion: 'admission.k8s.io/v1',
    uid: '1',
    operation: 'CREATE',
    namespace: 'factory',
  } as const
  return { ...base, object: good, oldObject: undefined, ...overrides }
}

const allowed = { outcome: 'allowed', warnings: [] }

describe('a review', () => {
  it('allows every deletion', async () => {
    expect(
      await reviewer().review(request({ operation: 'DELETE', object: undefined, oldObject: bad })),
    ).toEqual(allowed)
  })

  it('W1 R66 denies a request without an object', async () => {
    expect(await reviewer().review(request({ object: undefined }))).toEqual({
      outcome: 'denied',
      problems: [{ path: '', message: 'AdmissionRequest object contains no data' }],
      warnings: [],
    })
  })

  it('allows a wrong object with an unchanged spec, to remove finalizers', async () => {
    const finalized = { ...bad, metadata: { ...bad.metadata, finalizers: ['node-1'] } }
    expect(
      await reviewer().review(request({ operation: 'UPDATE', object: bad, oldObject: finalized })),
    ).toEqual(allowed)
    const changed = { ...bad, spec: { ...bad.spec, capacity: 2 } }
    expect(
      await reviewer().review(request({ operation: 'UPDATE', object: changed, oldObject: bad })),
    ).toMatchObject({
      outcome: 'denied',
      problems: [{ path: 'spec.discoveryHandler.name' }],
    })
  })

  it('A25 denies what stops agents of the existing system, if they run too', async () => {
    const containers = [{ name: 'b', image: 'i' }]
    const brokerSpec = { brokerPodSpec: { containers }, updateStrategy: { type: 'OnDelete' } }
    const object = { ...good, spec: { ...good.spec, brokerSpec } }
    expect(await reviewer().review(request({ object }))).toEqual(allowed)
    const beside = reviewer({ compatibility: 'akri-0.13' })
    expect(await beside.review(request({ object }))).toMatchObject({
      outcome: 'denied',
      problems: [
        {
          path: 'spec.brokerSpec.updateStrategy',
          message:
            'agents of Akri 0.13 stop at this field, and serve no Configuration: leave it out',
        },
      ],
    })
    // An existing object can still be deleted, and lose it.
    expect(
      await beside.review(request({ operation: 'UPDATE', object, oldObject: object })),
    ).toEqual(allowed)
    expect(
      await beside.review(request({ operation: 'UPDATE', object: good, oldObject: object })),
    ).toEqual(allowed)
  })

  it('warns of an unknown field until it has the types of the cluster', async () => {
    const containers = [{ name: 'b', image: 'i', comand: ['sh'] }]
    const spec = { ...good.spec, brokerSpec: { brokerPodSpec: { containers, hostNetwork: 'yes' } } }
    const object = { ...good, spec }
    const bundled = reviewer({ typesAreBundled: true })
    const comand =
      'spec.brokerSpec.brokerPodSpec.containers[0].comand: there is no such field; ' +
      'did you mean command?'
    expect(await bundled.review(request({ object }))).toMatchObject({
      outcome: 'denied',
      problems: [{ path: 'spec.brokerSpec.brokerPodSpec.hostNetwork' }],
      warnings: [comand],
    })
    Object.assign(spec.brokerSpec.brokerPodSpec, { hostNetwork: true })
    expect(await bundled.review(request({ object }))).toEqual({
      outcome: 'allowed',
      warnings: [comand],
    })
    expect(await reviewer().review(request({ object }))).toMatchObject({ outcome: 'denied' })
  })

  it('allows a brokerSpec without a broker, and warns of it', async () => {
    const brokerSpec = { updateStrategy: { type: 'OnDelete' } }
    const object = { ...good, spec: { ...good.spec, brokerSpec } }
    expect(await reviewer().review(request({ object }))).toEqual({
      outcome: 'allowed',
      warnings: [expect.stringMatching(/^spec\.brokerSpec: it has no broker: /)],
    })
  })

  it('has at most 10 warnings of fields', async () => {
    const brokerPodSpec = Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`x${index}`, 1]),
    )
    const containers = [{ name: 'b', image: 'i' }]
    const brokerSpec = { brokerPodSpec: { ...brokerPodSpec, containers } }
    const object = { ...good, spec: { ...good.spec, brokerSpec } }
    const verdict = await reviewer({ typesAreBundled: true }).review(request({ object }))
    expect('warnings' in verdict && verdict.warnings).toHaveLength(10)
  })

  it('compares specs of any depth', async () => {
    const deep = () => JSON.parse(`{"spec":${'['.repeat(100_000)}${']'.repeat(100_000)}}`)
    const verdict = await reviewer().review(
      request({ operation: 'UPDATE', object: deep(), oldObject: deep() }),
    )
    expect(verdict).toEqual(allowed)
    expect(
      await reviewer().review(request({ operation: 'UPDATE', object: deep(), oldObject: good })),
    ).toMatchObject({
      outcome: 'denied',
      problems: [{ path: '', message: 'it is nested more than 100 deep' }],
    })
  })

  it('refuses a name in use, for new objects only', async () => {
    const taken = { path: 'metadata.name', message: 'taken' }
    const asked: string[][] = []
    const names: NamesInUse = {
      problems: async (...what) => {
        asked.push(what)
        return [taken]
      },
    }
    expect(await reviewer({ names }).review(request({}))).toMatchObject({
      outcome: 'denied',
      problems: [taken],
    })
    const changed = { ...good, spec: { ...good.spec, capacity: 2 } }
    const update = request({ operation: 'UPDATE', object: changed, oldObject: good })
    expect(await reviewer({ names }).review(update)).toEqual(allowed)
    const misnamed = { ...good, metadata: { name: 'a,metadata.namespace=kube-system' } }
    await reviewer({ names }).review(request({ object: misnamed }))
    expect(asked).toEqual([['factory', 'lab']])
  })

  it.each<[FailurePolicy, object]>([
    [
      'Fail',
      { outcome: 'undecided', reasons: [expect.stringContaining('the API server is away')] },
    ],
    [
      'Ignore',
      { outcome: 'allowed', warnings: [expect.stringContaining('the API server is away')] },
    ],
  ])('that is incomplete follows the failure policy: %s', async (failurePolicy, verdict) => {
    const names: NamesInUse = {
      problems: () => Promise.reject(new Error('the API server is away')),
    }
    expect(await reviewer({ names, failurePolicy }).review(request({}))).toEqual(verdict)
    // What is wrong is wrong.
    expect(await reviewer({ names, failurePolicy }).review(request({ object: bad }))).toMatchObject(
      { outcome: 'denied' },
    )
  })

  it('warns of a Secret of another namespace, by the namespace of the request', async () => {
    const secretKeyRef = { name: 'cameras', key: 'k', namespace: 'line' }
    const discoveryProperties = [{ name: 'p', valueFrom: { secretKeyRef } }]
    const spec = { discoveryHandler: { name: 'sensor', discoveryProperties } }
    const review = (namespace: string) =>
      reviewer().review(
        request({ namespace, object: { ...good, metadata: { name: 'lab' }, spec } }),
      )
    expect(await review('factory')).toEqual({
      outcome: 'allowed',
      warnings: [expect.stringContaining('Secret line/cameras')],
    })
    expect(await review('line')).toEqual(allowed)
  })

  it('W1 survives a schema of a handler that throws', async () => {
    const details = z.unknown().transform(() => {
      throw new Error('a mistake of its own')
    })
    expect(
      await reviewer({ handlers: new Map([['sensor', { details }]]) }).review(request({})),
    ).toEqual({
      outcome: 'undecided',
      reasons: [expect.stringContaining('sensor: a mistake of its own')],
    })
  })

  it('limits the time of the schema of a handler', async () => {
    const details = z.unknown().refine(() => new Promise<boolean>(() => {}))
    const clock = new ManualClock()
    const verdict = reviewer({ clock, handlers: new Map([['sensor', { details }]]) }).review(
      request({}),
    )
    await clock.untilSleeping()
    await clock.advance(2000)
    expect(await verdict).toMatchObject({
      outcome: 'undecided',
      reasons: [expect.stringContaining('within 2000 ms')],
    })
  })

  it('W1 R66 never throws, and names the path, for any object', async () => {
    const names = fc.constantFrom(
      'apiVersion',
      'kind',
      'metadata',
      'spec',
      'name',
      'brokerSpec',
      'brokerPodSpec',
      'discoveryHandler',
      '__proto__',
      'constructor',
    )
    const { json } = fc.letrec<{ json: unknown }>((tie) => ({
      json: fc.oneof(
        { depthSize: 'medium', withCrossShrink: true },
        fc.constantFrom(null, 0, -1, 1.5, '', 'udev', true),
        fc.array(tie('json'), { maxLength: 3 }),
        fc.dictionary(names, tie('json'), { maxKeys: 4 }),
      ),
    }))
    const near = fc.record({
      apiVersion: fc.constantFrom('akri.sh/v0', 1),
      kind: fc.constantFrom('Configuration', null),
      metadata: fc.oneof(fc.constant(good.metadata), json),
      spec: fc.oneof(
        fc.record({
          discoveryHandler: fc.oneof(fc.constant({ name: 'sensor' }), json),
          brokerSpec: fc.record({ brokerPodSpec: json }),
        }),
        json,
      ),
    })
    // As it comes out of a body: with prototypes and own properties as JSON.parse makes them.
    const sent = fc
      .oneof(fc.jsonValue(), json, near)
      .map((value): unknown => JSON.parse(JSON.stringify(value)))
    const handlers: Handlers = new Map([
      ['sensor', { details: z.strictObject({ url: z.url().optional() }) }],
    ])
    await fc.assert(
      fc.asyncProperty(sent, fc.constantFrom('CREATE', 'UPDATE', ''), async (object, operation) => {
        const given = request({ operation, object: object ?? undefined, oldObject: good })
        const verdict = await reviewer({ handlers }).review(given)
        if (verdict.outcome === 'denied') {
          expect(verdict.problems.length).toBeGreaterThan(0)
          const hasFields =
            typeof object === 'object' &&
            object !== null &&
            !Array.isArray(object) &&
            !('' in object)
          for (const { path, message } of verdict.problems) {
            expect(message).not.toBe('')
            if (hasFields) expect(path).not.toBe('')
          }
        }
        expect(() => JSON.stringify(admissionReview(given, verdict))).not.toThrow()
      }),
      { numRuns: 500 },
    )
  })

  it('does not read details that would take long, and says so', async () => {
    const details = `a: [${'b,'.repeat(40_000)}`
    const schema = z.looseObject({})
    const handlers: Handlers = new Map([['sensor', { details: schema }]])
    const object = {
      ...good,
      spec: { discoveryHandler: { name: 'sensor', discoveryDetails: details } },
    }
    expect(await reviewer({ handlers }).review(request({ object }))).toEqual({
      outcome: 'allowed',
      warnings: [expect.stringMatching(/discoveryDetails: more than 49152 bytes are not checked/)],
    })
  })
})

describe('an AdmissionReview', () => {
  const review = (more: object) => ({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    ...more,
  })

  it.each(['admission.k8s.io/v1', 'admission.k8s.io/v1beta1'])(
    'is answered in its own version: %s',
    (apiVersion) => {
      const read = readAdmissionReview(
        review({
          apiVersion,
          request: { uid: 'u', operation: 'CREATE', namespace: 'n', object: good },
        }),
      )
      if (typeof read === 'string') return expect.fail(read)
      expect(read).toEqual({
        apiVersion,
        uid: 'u',
        operation: 'CREATE',
        namespace: 'n',
        object: good,
        oldObject: undefined,
      })
      expect(admissionReview(read, { outcome: 'allowed', warnings: [] })).toEqual({
        apiVersion,
        kind: 'AdmissionReview',
        response: { uid: 'u', allowed: true },
      })
    },
  )

  it.each<[string, unknown, RegExp]>([
    ['is none', { kind: 'Pod' }, /send an AdmissionReview/],
    [
      'has a uid that is too long',
      review({ request: { uid: 'u'.repeat(129) } }),
      /the uid of the request has more than 128 characters/,
    ],
    ['is nothing', null, /send an AdmissionReview/],
    ['is a list', [], /send an AdmissionReview/],
    [
      'is of another version',
      review({ apiVersion: 'admission.k8s.io/v2', request: { uid: 'u' } }),
      /v1 or admission.k8s.io\/v1beta1/,
    ],
    ['has no request', review({}), /has no request/],
    ['has no uid', review({ request: { object: good } }), /has no uid/],
  ])('is refused if it %s', (_what, body, message) => {
    expect(readAdmissionReview(body)).toMatch(message)
  })

  it('names the path of each problem, for people and for programs', () => {
    const problems = [
      { path: 'spec.capacity', message: 'too small' },
      { path: 'spec.brokerSpec', message: 'too many' },
    ]
    expect(admissionReview(request({}), { outcome: 'denied', problems, warnings: ['w'] })).toEqual({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: {
        uid: '1',
        allowed: false,
        warnings: ['w'],
        status: {
          status: 'Failure',
          code: 422,
          reason: 'Invalid',
          message: '\n* spec.capacity: too small\n* spec.brokerSpec: too many',
          details: {
            group: 'akri.sh',
            kind: 'Configuration',
            name: 'lab',
            causes: [
              { reason: 'FieldValueInvalid', field: 'spec.capacity', message: 'too small' },
              { reason: 'FieldValueInvalid', field: 'spec.brokerSpec', message: 'too many' },
            ],
          },
        },
      },
    })
  })

  it('limits the shown problems', () => {
    const problems = Array.from({ length: 500 }, () => ({
      path: 'p'.repeat(5000),
      message: 'm'.repeat(5000),
    }))
    const text = JSON.stringify(
      admissionReview(request({}), { outcome: 'denied', problems, warnings: ['w'.repeat(5000)] }),
    )
    expect(text.length).toBeLessThan(32 * 1024)
    expect(text).toContain('and 493 more')
  })

  it('asks for a retry if a check could not be done', () => {
    expect(
      admissionReview(request({}), { outcome: 'undecided', reasons: ['a', 'b'] }),
    ).toMatchObject({
      response: {
        allowed: false,
        status: { code: 503, reason: 'ServiceUnavailable', message: 'a; b' },
      },
    })
  })
})
