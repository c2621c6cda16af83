import type { Instance } from '@akrijs/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Job, Pod } from '../kubernetes-objects.js'
import { T0, testInstance, testJob, testPod, withHistory } from '../testing/objects.js'
import { JOB } from './broker-history.js'
import { type JobPlanInput, planJob } from './job-plan.js'

const instance = testInstance(['a', 'b'])

const recorded = (name: string, specHash = 'now'): Instance => ({
  ...instance,
  status: { brokerJob: { name, specHash } },
})

function plan(
  target: Instance,
  jobs: readonly Job[],
  more: Partial<JobPlanInput> & { pods?: readonly Pod[] } = {},
) {
  const { pods = [], ...rest } = more
  const {
    history,
    reason: _reason,
    ...steps
  } = planJob({
    instance: target,
    specHash: 'now',
    strategy: 'RollingUpdate',
    jobs,
    podsOf: () => pods,
    knownForMs: 0,
    now: T0,
    ...rest,
  })
  return { ...steps, ...(history.left[JOB] && { left: history.left[JOB] }) }
}

describe('the broker Job of an Instance', () => {
  it('R53 C2 is created once, also for an Instance that existed before the controller', () => {
    expect(plan(instance, [])).toEqual({ create: { restarts: 0 } })
    const job = testJob('cam-8120fe-3-job')
    expect(plan(instance, [job])).toEqual({
      record: { name: 'cam-8120fe-3-job', specHash: 'now' },
    })
    expect(plan(recorded('cam-8120fe-3-job'), [job])).toEqual({})
  })

  it('C4 is not created again after it has finished and a user has deleted it', () => {
    const done = testJob('cam-8120fe-3-job', { outcome: 'complete', endedAt: T0 })
    expect(plan(recorded('cam-8120fe-3-job'), [done])).toEqual({})
    expect(plan(recorded('cam-8120fe-3-job'), [])).toEqual({})
  })

  it('is replaced five minutes after its deletion if only a finalizer holds it', () => {
    const since = new Date(T0).toISOString()
    const old = testJob('cam-8120fe-2-job', { hash: 'before', outcome: 'complete', endedAt: T0 })
    const metadata = {
      ...old.metadata,
      deletionTimestamp: since,
      finalizers: ['foregroundDeletion'],
    }
    const held = [{ ...old, metadata, deletedAt: T0 }]
    const before = recorded('cam-8120fe-2-job', 'before')
    const at = T0 + 5 * 60_000
    expect(plan(before, held)).toEqual({ recheckAt: at })
    expect(plan(before, held, { now: at, pods: [testPod('a')] })).toEqual({})
    const ended = [testPod('a', { phase: 'Succeeded' })]
    expect(plan(before, held, { now: at, pods: ended })).toEqual({ create: { restarts: 0 } })
  })

  it('C4 R65 R72 is replaced for a new spec, once the old Job has gone with its Pods', () => {
    const old = testJob('cam-8120fe-2-job', { hash: 'before', outcome: 'complete', endedAt: T0 })
    const before = recorded('cam-8120fe-2-job', 'before')
    expect(plan(before, [old])).toEqual({ remove: [old] })
    expect(
      plan(before, [{ ...old, metadata: { ...old.metadata, deletionTimestamp: 'now' } }]),
    ).toEqual({})
    expect(plan(before, [])).toEqual({ create: { restarts: 0 } })
  })

  it('waits with OnDelete until a user deletes the old Job', () => {
    const old = testJob('cam-8120fe-2-job', { hash: 'before' })
    const before = recorded('cam-8120fe-2-job', 'before')
    expect(plan(before, [old], { strategy: 'OnDelete' })).toEqual({})
    expect(plan(before, [], { strategy: 'OnDelete' })).toEqual({ create: { restarts: 0 } })
  })

  it('R51 is removed if no Job is specified any more', () => {
    const job = testJob('cam-8120fe-3-job')
    expect(plan(instance, [job], { specHash: undefined })).toEqual({ remove: [job] })
    expect(plan(instance, [], { specHash: undefined })).toEqual({ remove: [] })
  })

  it('counts as made from the present spec if it has no spec hash', () => {
    const job = testJob('cam-8120fe-3-job', { hash: undefined, outcome: 'complete' })
    expect(plan(instance, [job])).toEqual({ adopt: job })
  })

  describe('whose Pods were all refused by kubelets', () => {
    const refused = testPod('a', {
      phase: 'Failed',
      reason: 'UnexpectedAdmissionError',
      ready: false,
      hasRun: false,
    })
    const failed = testJob('cam-8120fe-3-job', { outcome: 'failed', endedAt: T0 })
    const withRecord = recorded('cam-8120fe-3-job')

    it('R86 R89 is created again after a wait, and the record of its creation is removed', () => {
      const { recheckAt: now = 0 } = plan(instance, [failed], { pods: [refused, refused] })
      expect(now).toBeGreaterThan(T0)
      expect(plan(withRecord, [failed], { pods: [refused] })).toEqual({
        record: null,
        left: { uid: failed.metadata.uid, restarts: 1 },
      })
      expect(plan(instance, [failed], { pods: [refused], now })).toEqual({ remove: [failed] })
    })

    it('waits also if the Job has gone already, such as by ttlSecondsAfterFinished', () => {
      const found = withHistory(instance, { left: { [JOB]: { uid: 'x', restarts: 1 } } })
      const { recheckAt = 0 } = plan(found, [])
      const knownForMs = recheckAt - T0
      expect(knownForMs).toBeGreaterThanOrEqual(2000)
      expect(plan(found, [], { knownForMs }).create).toEqual({ restarts: 1 })
    })

    it('stays failed if a Pod of it was deleted, which may have run', () => {
      const more = testJob('cam-8120fe-3-job', { outcome: 'failed', endedAt: T0, failedPods: 2 })
      const now = T0 + 3_600_000
      expect(plan(withRecord, [more], { pods: [refused], now })).toEqual({})
      expect(plan(withRecord, [more], { pods: [refused, refused], now })).toMatchObject({
        record: null,
      })
    })

    it('stays failed if one of its Pods has run', () => {
      const ran = testPod('b', { phase: 'Failed', ready: false })
      expect(plan(withRecord, [failed], { pods: [refused, ran], now: T0 + 3_600_000 })).toEqual({})
      expect(plan(withRecord, [failed], { pods: [], now: T0 + 3_600_000 })).toEqual({})
    })
  })
})

describe('for any Jobs', () => {
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

  it('C4 repeated plans end with at most one Job, and create none twice', () => {
    fc.assert(
      fc.property(
        fc.array(anyJob, { maxLength: 4 }),
        fc.option(fc.constantFrom('now', 'before'), { nil: undefined }),
        fc.option(fc.constantFrom('now'), { nil: undefined }),
        fc.boolean(),
        (existing, recordedHash, specHash, isRefused) => {
          let jobs = existing.map((job, index) => testJob(`j${index}`, { ...job, endedAt: T0 }))
          let target = recordedHash === undefined ? instance : recorded('j0', recordedHash)
          let now = T0
          let created = 0
          const step = () => {
            const result = plan(target, jobs, {
              specHash,
              now,
              podsOf: ({ metadata }) => (isRefused && metadata.name !== 'new' ? [refused] : []),
            })
            if (result.create !== undefined) {
              created++
              jobs = [...jobs, testJob('new')]
            }
            if (result.record === null) target = instance
            else if (result.record) target = recorded(result.record.name)
            const { adopt, remove = [] } = result
            jobs = jobs
              .filter((job) => !remove.includes(job))
              .map((job) => (job === adopt ? testJob(job.metadata.name) : job))
            return result
          }
          for (let index = 0; index < 20; index++) {
            step()
            now += 3_600_000
            jobs = jobs.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
          }
          const { create, record, adopt, remove = [] } = step()
          expect([create, record, adopt, remove]).toEqual([undefined, undefined, undefined, []])
          expect(jobs.length).toBeLessThanOrEqual(specHash === undefined ? 0 : 1)
          expect(created).toBeLessThanOrEqual(1)
          const wasMade =
            recordedHash === specHash ||
            existing.some(({ hash, leaves }) => hash !== 'before' && !leaves)
          if (wasMade && !isRefused) expect(created).toBe(0)
        },
      ),
    )
  })
})
