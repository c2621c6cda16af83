import type { Instance } from '@akrijs/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Job, Pod } from '../objects.js'
import { T0, testInstance, testJob, testPod } from '../testing/objects.js'
import { type JobPlanInput, planJob } from './job-plan.js'

const instance = testInstance(['a', 'b'])

const made = (name: string, specHash = 'now'): Instance => ({
  ...instance,
  status: { brokerJob: { name, specHash } },
})

function plan(
  of: Instance,
  jobs: readonly Job[],
  more: Partial<JobPlanInput> & { pods?: readonly Pod[] } = {},
) {
  const { pods = [], ...rest } = more
  return planJob({
    instance: of,
    specHash: 'now',
    strategy: 'RollingUpdate',
    jobs,
    podsOf: () => pods,
    restarts: 0,
    notBefore: 0,
    now: T0,
    ...rest,
  })
}

describe('the broker Job of an Instance', () => {
  it('R53 C2 is made once, also for an Instance that was there before the controller', () => {
    expect(plan(instance, [])).toEqual({ do: 'create', restarts: 0 })
    const job = testJob('cam-8120fe-3-job')
    expect(plan(instance, [job])).toEqual({ do: 'remember', job })
    expect(plan(made('cam-8120fe-3-job'), [job])).toEqual({ do: 'nothing' })
  })

  it('C4 is not made again when it has finished and somebody tidied up', () => {
    const done = testJob('cam-8120fe-3-job', { outcome: 'complete', endedAt: T0 })
    expect(plan(made('cam-8120fe-3-job'), [done])).toEqual({ do: 'nothing' })
    expect(plan(made('cam-8120fe-3-job'), [])).toEqual({ do: 'nothing' })
  })

  it('C4 R65 R72 is made anew for a new spec, when the old one has gone with its Pods', () => {
    const old = testJob('cam-8120fe-2-job', { hash: 'before', outcome: 'complete', endedAt: T0 })
    const before = made('cam-8120fe-2-job', 'before')
    expect(plan(before, [old])).toEqual({ do: 'remove', jobs: [old], why: 'the spec has changed' })
    expect(
      plan(before, [{ ...old, metadata: { ...old.metadata, deletionTimestamp: 'now' } }]),
    ).toEqual({ do: 'nothing' })
    expect(plan(before, [])).toEqual({ do: 'create', restarts: 0 })
  })

  it('waits with OnDelete until somebody deletes the old one', () => {
    const old = testJob('cam-8120fe-2-job', { hash: 'before' })
    const before = made('cam-8120fe-2-job', 'before')
    expect(plan(before, [old], { strategy: 'OnDelete' })).toEqual({ do: 'nothing' })
    expect(plan(before, [], { strategy: 'OnDelete' })).toEqual({ do: 'create', restarts: 0 })
  })

  it('R51 goes when none is wanted any more', () => {
    const job = testJob('cam-8120fe-3-job')
    expect(plan(instance, [job], { specHash: undefined })).toMatchObject({
      do: 'remove',
      jobs: [job],
    })
    expect(plan(instance, [], { specHash: undefined })).toEqual({ do: 'nothing' })
  })

  it('of before there were hashes counts as made from the present spec', () => {
    const job = testJob('cam-8120fe-3-job', { hash: undefined, outcome: 'complete' })
    expect(plan(instance, [job])).toEqual({ do: 'adopt', job })
  })

  describe('whose Pods no kubelet let in', () => {
    const refused = testPod('a', {
      phase: 'Failed',
      reason: 'UnexpectedAdmissionError',
      ready: false,
      hasRun: false,
    })
    const failed = testJob('cam-8120fe-3-job', { outcome: 'failed', endedAt: T0 })
    const of = made('cam-8120fe-3-job')

    it('R86 R89 is made again after a moment, and does not count as made', () => {
      const first = plan(instance, [failed], { pods: [refused, refused] })
      expect(first).toMatchObject({ do: 'nothing', lookAgainAt: expect.any(Number) })
      const now = (first.do === 'nothing' ? first.lookAgainAt : undefined) ?? 0
      expect(plan(of, [failed], { pods: [refused] })).toEqual({
        do: 'forget',
        job: failed,
        restarts: 1,
        notBefore: now,
      })
      expect(plan(instance, [failed], { pods: [refused], now })).toEqual({
        do: 'repeat',
        job: failed,
        restarts: 1,
      })
      expect(plan(instance, [], { restarts: 1 })).toEqual({ do: 'create', restarts: 1 })
    })

    it('waits also where the Job goes by itself, such as by its ttlSecondsAfterFinished', () => {
      expect(plan(instance, [], { restarts: 1, notBefore: T0 + 1 })).toEqual({
        do: 'nothing',
        lookAgainAt: T0 + 1,
      })
      expect(plan(instance, [], { restarts: 1, notBefore: T0 })).toEqual({
        do: 'create',
        restarts: 1,
      })
    })

    it('stays failed where one of them has run', () => {
      const ran = testPod('b', { phase: 'Failed', ready: false })
      expect(plan(of, [failed], { pods: [refused, ran], now: T0 + 3_600_000 })).toEqual({
        do: 'nothing',
      })
      expect(plan(of, [failed], { pods: [], now: T0 + 3_600_000 })).toEqual({ do: 'nothing' })
    })
  })
})

describe('whatever Jobs there are', () => {
  const anyJob = fc.record({
    hash: fc.constantFrom('now', 'before', undefined),
    outcome: fc.constantFrom('complete' as const, 'failed' as const, undefined),
    leaves: fc.boolean(),
  })
  const refused = testPod('a', {
    phase: 'Failed',
    reason: 'OutOfakri.sh/cam',
    ready: false,
    hasRun: false,
  })

  it('C4 the Instance comes to rest, with at most one Job, without having made more than one, or one that was made before', () => {
    fc.assert(
      fc.property(
        fc.array(anyJob, { maxLength: 4 }),
        fc.option(fc.constantFrom('now', 'before'), { nil: undefined }),
        fc.option(fc.constantFrom('now'), { nil: undefined }),
        fc.boolean(),
        (given, remembered, specHash, isRefused) => {
          let jobs = given.map((job, index) => testJob(`j${index}`, { ...job, endedAt: T0 }))
          let of = remembered === undefined ? instance : made('j0', remembered)
          let now = T0
          let created = 0
          const step = () => {
            const found = plan(of, jobs, {
              specHash,
              now,
              podsOf: ({ metadata }) => (isRefused && metadata.name !== 'new' ? [refused] : []),
            })
            if (found.do === 'create') {
              created++
              jobs = [...jobs, testJob('new')]
            } else if (found.do === 'remember') of = made(found.job.metadata.name)
            else if (found.do === 'forget') of = instance
            else if (found.do === 'adopt')
              jobs = jobs.map((job) => (job === found.job ? testJob(job.metadata.name) : job))
            else if (found.do === 'remove') jobs = jobs.filter((job) => !found.jobs.includes(job))
            else if (found.do === 'repeat') jobs = jobs.filter((job) => job !== found.job)
            return found
          }
          for (let index = 0; index < 20; index++) {
            step()
            now += 3_600_000
            jobs = jobs.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
          }
          expect(step()).toEqual({ do: 'nothing' })
          expect(jobs.length).toBeLessThanOrEqual(specHash === undefined ? 0 : 1)
          expect(created).toBeLessThanOrEqual(1)
          const wasMade =
            remembered === specHash ||
            given.some(({ hash, leaves }) => hash !== 'before' && !leaves)
          if (wasMade && !isRefused) expect(created).toBe(0)
        },
      ),
    )
  })
})
