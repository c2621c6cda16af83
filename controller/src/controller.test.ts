import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { control } from './controller.js'
import { TestApi } from './testing/api.js'
import { T0, testConfiguration, testInstance } from './testing/objects.js'

const AKRI = '/apis/akri.sh/v0/namespaces/plant'
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a'

describe('the work of a controller', () => {
  let api: TestApi

  beforeEach(() => {
    api = new TestApi()
  })

  afterEach(async () => {
    await api.stop()
  })

  it('is no hot loop where a node says that it was heard of in the far future, and ends with its turn', async () => {
    const conditions = [
      { type: 'Ready', status: 'Unknown', lastTransitionTime: '9999-01-01T00:00:00Z' },
    ]
    api.put('/api/v1/nodes/a', { metadata: { name: 'a' }, status: { conditions } })
    api.put(`${AKRI}/configurations/cam`, { ...testConfiguration() })
    api.put(`${AKRI}/instances/cam-8120fe`, { ...testInstance(['a']) })
    const { client, state } = await api.start()
    const turn = new AbortController()
    const clock = new ManualClock(T0)
    const work = control(
      { state, client, clock, log: silentLogger, events: { record() {} } },
      turn.signal,
    )
    await clock.untilSleeping()
    // A timer of more than 24 days would end at once.
    expect(clock.sleeping).toEqual([3_600_000])
    await clock.advance(3_600_000)
    await eventually(() =>
      expect(api.requests.filter(({ path }) => path === LEASE)).toHaveLength(2),
    )
    turn.abort()
    await work
    expect(clock.sleeping).toEqual([])
  })
})
