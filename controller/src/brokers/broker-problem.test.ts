import { ApiError, ApiUnreachableError, objectKey } from '@akrijs/kube'
import { describe, expect, it } from 'vitest'
import { NameTakenError } from '../errors.js'
import { parseDeployment, parseJob, parsePod } from '../kubernetes-objects.js'
import { testPod } from '../testing/objects.js'
import { BrokerFailures, writeProblem } from './broker-problem.js'

const { metadata } = testPod('a', { name: 'p' })
const problemOf = (status: object) => parsePod({ metadata, status }, undefined, 0)?.problem
const waiting = (reason: string, message = 'text') => ({
  phase: 'Pending',
  containerStatuses: [{ state: { running: {} } }, { state: { waiting: { reason, message } } }],
})

describe('the problem of a broker', () => {
  it.each([
    ['ErrImagePull', 'ImagePullFailed'],
    ['ImagePullBackOff', 'ImagePullFailed'],
    ['InvalidImageName', 'ImagePullFailed'],
    ['CreateContainerConfigError', 'ContainerNotCreated'],
    ['CrashLoopBackOff', 'CrashLoop'],
  ])('is what the kubelet says of a container: %s', (word, reason) => {
    expect(problemOf(waiting(word))).toEqual({ reason, message: `Pod p: ${word}: text` })
  })

  it.each(['ContainerCreating', 'PodInitializing', 'toString', ''])(
    'is none while the container only waits: %j',
    (word) => {
      expect(problemOf(waiting(word))).toBeUndefined()
    },
  )

  it('is what the scheduler or the kubelet says of the Pod', () => {
    const scheduled = { type: 'PodScheduled', status: 'False', message: '0/2 nodes' }
    const conditions = [{ ...scheduled, reason: 'Unschedulable' }]
    expect(problemOf({ phase: 'Pending', conditions })).toEqual({
      reason: 'Unschedulable',
      message: 'Pod p: 0/2 nodes',
    })
    const gated = [{ ...scheduled, reason: 'SchedulingGated' }]
    expect(problemOf({ phase: 'Pending', conditions: gated })).toBeUndefined()
    expect(problemOf({ phase: 'Failed', reason: 'Evicted', message: 'full' })).toEqual({
      reason: 'PodFailed',
      message: 'Pod p: Evicted: full',
    })
    expect(problemOf({ phase: 'Failed' })?.message).toBe('Pod p')
  })

  it('has a bounded message without control characters', () => {
    const { message = '' } = problemOf(waiting('ErrImagePull', '\u0007'.repeat(100_000))) ?? {}
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024)
    expect(message).not.toMatch(/\p{Cc}/u)
  })

  it('is the sentence of the API server that refuses the broker', () => {
    const refused = (status: number, message: string) =>
      writeProblem(new ApiError('POST /x', { status, reason: 'Forbidden', message }))
    expect(refused(403, 'violates PodSecurity')).toEqual({
      reason: 'BrokerRefused',
      message: 'violates PodSecurity',
    })
    expect(refused(403, 'p is forbidden: exceeded quota: q, used: 1')?.reason).toBe('QuotaExceeded')
    expect(refused(500, 'failed calling webhook')?.reason).toBe('BrokerRefused')
    expect(refused(503, 'admission webhook "w" denied the request')?.reason).toBe('BrokerRefused')
    for (const status of [401, 409, 429, 500, 503, 504])
      expect(refused(status, 'busy')).toBeUndefined()
    expect(writeProblem(new ApiUnreachableError('away'))).toBeUndefined()
    expect(writeProblem(new NameTakenError('taken'))).toEqual({
      reason: 'BrokerFailed',
      message: 'taken',
    })
    expect(writeProblem(new TypeError('x'))?.reason).toBe('InternalError')
  })

  it('stays while the API server judges no broker', async () => {
    const failures = new BrokerFailures()
    const owner = objectKey('plant', 'cam')
    const fail = (status: number) =>
      failures
        .watch('Configuration', owner, () =>
          Promise.reject(new ApiError('POST /x', { status, reason: 'R', message: `${status}` })),
        )
        .catch(() => failures.of('Configuration', owner)?.message)
    expect(await fail(503)).toBeUndefined()
    expect(await fail(403)).toBe('403')
    expect(await fail(503)).toBe('403')
    await failures.watch('Configuration', owner, async () => {})
    expect(failures.of('Configuration', owner)).toBeUndefined()
  })

  it('is read from a Deployment until its Pods are created', () => {
    const conditions = (status: string) => [
      { type: 'ReplicaFailure', status, reason: 'FailedCreate', message: 'pods "x" is forbidden' },
    ]
    const parsed = (status: object) => parseDeployment({ metadata, spec: { replicas: 3 }, status })
    expect(parsed({ conditions: conditions('True') })).toMatchObject({
      desired: 3,
      ready: 0,
      refusal: 'pods "x" is forbidden',
    })
    expect(parsed({ conditions: conditions('False'), readyReplicas: 2 })).toMatchObject({
      ready: 2,
      refusal: undefined,
    })
  })

  it('can be that a Job has no Pods, unless it is suspended or has ended', () => {
    const lacksPods = (spec: object, status: object) =>
      parseJob({ metadata, spec, status }, undefined, 0)?.lacksPods
    expect(lacksPods({}, {})).toBe(true)
    expect(lacksPods({}, { active: 1 })).toBe(false)
    expect(lacksPods({ suspend: true }, {})).toBe(false)
    expect(lacksPods({}, { conditions: [{ type: 'Failed', status: 'True' }] })).toBe(false)
  })
})
