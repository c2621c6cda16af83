import { describe, expect, it } from 'vitest'
import { brokerOf, readBrokerPod } from './broker-pods.js'

const labels = { 'akri.sh/instance': 'cam-8120fe' }

/** @param day of November, on which the Pod was created */
function pod(status: object, name = 'broker', day = 1) {
  const creationTimestamp = `2026-11-0${day}T00:00:00Z`
  const metadata = { name, namespace: 'plant', uid: name, resourceVersion: '1', labels }
  return readBrokerPod({ metadata: { ...metadata, creationTimestamp }, spec: {}, status })
}

const waiting = (reason: string, message = '') => ({
  phase: 'Pending',
  containerStatuses: [{ state: { waiting: { reason, message } } }],
})
const unscheduled = {
  type: 'PodScheduled',
  status: 'False',
  reason: 'Unschedulable',
  message: 'no',
}

describe('the broker of an Instance in a cluster', () => {
  it.each([
    [{ phase: 'Running' }, { phase: 'running' }],
    [{ phase: 'Succeeded' }, { phase: 'completed' }],
    [
      { phase: 'Failed', reason: 'Evicted' },
      { phase: 'failed', reason: 'Pod broker: Evicted' },
    ],
    [{ phase: 'Failed' }, { phase: 'failed', reason: 'Pod broker' }],
    [{ phase: 'Pending' }, { phase: 'waiting', reason: 'starting' }],
    [waiting('ContainerCreating'), { phase: 'waiting', reason: 'starting' }],
    [
      waiting('ErrImagePull', 'no such image'),
      { phase: 'waiting', reason: 'Pod broker: ErrImagePull: no such image' },
    ],
    [
      { ...waiting('CrashLoopBackOff'), phase: 'Running' },
      { phase: 'waiting', reason: 'Pod broker: CrashLoopBackOff' },
    ],
    [
      { phase: 'Pending', conditions: [unscheduled] },
      { phase: 'waiting', reason: 'Pod broker: Unschedulable: no' },
    ],
  ])('with a Pod of status %j is %j', (status, broker) => {
    expect(pod(status)).toMatchObject({ instance: 'cam-8120fe', broker })
  })

  const all = (...pods: readonly ReturnType<typeof pod>[]) =>
    brokerOf(pods.flatMap((each) => each ?? []))

  it('has the state of the Pod that needs attention', () => {
    const running = pod({ phase: 'Running' }, 'a')
    const failing = pod(waiting('ErrImagePull'), 'b')
    expect(all(running, failing)).toEqual({ phase: 'waiting', reason: 'Pod b: ErrImagePull' })
    expect(all(running, pod({ phase: 'Pending' }, 'c'))?.reason).toBe('starting')
    expect(all()).toBeUndefined()
  })

  it('has the state of the newest attempt of a Job, and of a Pod that has not ended first', () => {
    const failed = pod({ phase: 'Failed' }, 'a', 1)
    const completed = pod({ phase: 'Succeeded' }, 'b', 2)
    expect(all(failed, completed)).toEqual({ phase: 'completed' })
    expect(all(completed, pod({ phase: 'Failed' }, 'c', 3))?.phase).toBe('failed')
    expect(all(failed, pod({ phase: 'Running' }, 'd'))).toEqual({ phase: 'running' })
  })

  it('is not read from an object that is no such Pod', () => {
    for (const object of [undefined, {}, { metadata: { name: 'a', namespace: 'b', labels: {} } }])
      expect(readBrokerPod(object)).toBeUndefined()
  })
})
