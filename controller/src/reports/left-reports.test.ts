import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { INSTANCE, testInstance } from '../testing/objects.js'
import { GRACE_MS, REPORTS, ReportsHarness } from '../testing/reports-harness.js'

const REPORT = `${REPORTS}/a`
const AGENT = { agentPod: 'agent-a', agentNamespace: 'akri' }

let world: ReportsHarness

beforeEach(() => {
  world = new ReportsHarness()
  world.putNodes('a')
})

afterEach(() => world.stop())

/** A Pod of the node `a`. */
function putPod(path: string, spec: object, metadata: object = {}): void {
  world.api.put(`/api/v1/namespaces/${path}`, { metadata, spec: { nodeName: 'a', ...spec } })
}

describe('the report of a node without an agent', () => {
  it('stays for the claims of Pods, and does not count after the grace period', async () => {
    world.putNodes('b')
    world.putReport('b', 'True')
    world.putReport('a', 'True', AGENT)
    const limits = { 'akri.sh/cam-8120fe': '1' }
    putPod('plant/pods/user', { containers: [{ resources: { limits } }] })
    const instance = testInstance(['a'], { shared: false })
    const deviceUsage = { 'cam-8120fe-0': 'a' }
    world.api.put(INSTANCE, { ...instance, spec: { ...instance.spec, deviceUsage } })
    await world.start()
    const spec = () => world.state.instances.cache.list()[0]?.spec
    await inSteps(world.clock, () => expect(spec()?.nodes).toEqual([]), GRACE_MS / 10)
    await world.clock.advance(GRACE_MS)
    // The Pod of the node uses the device.
    expect(spec()?.deviceUsage).toEqual(deviceUsage)
    expect(world.deletions).toEqual([])
    await world.untilCounted(1, 0)
    expect(world.ready?.status).toBe('True')
    // Another replica has not counted the grace period.
    await world.lead()
    for (let second = 0; second < 100; second++) await world.clock.advance(1000)
    expect(world.ready?.status).toBe('True')
    expect(world.status.nodeCounts).toEqual({ reporting: 1, ready: 1, silent: 0 })
    world.api.remove('/api/v1/namespaces/plant/pods/user')
    await world.untilDeleted([INSTANCE, REPORT], 10_000)
  })

  it('stays while the next agent does not start, and shows when that is taken off', async () => {
    world.putReport('a', 'True', { ...AGENT, agentPod: 'agent-before' })
    world.putAgent('a', false, 'ImagePullBackOff')
    world.api.putInstance(['a'], { shared: false })
    await world.start()
    const message = expect.stringContaining('1 devices before: Pod agent-a: ImagePullBackOff')
    await world.untilReady({ reason: 'ImagePullFailed', message }, GRACE_MS)
    await world.clock.advance(GRACE_MS)
    expect(world.deletions).toEqual([])
    world.removeAgent('a')
    await world.untilPresent('a', 'left')
    await eventually(() => expect(world.clock.sleeping).toContain(GRACE_MS))
    // The grace period begins again.
    await world.clock.advance(GRACE_MS - 1)
    expect(world.deletions).toEqual([])
    await world.untilDeleted([INSTANCE, REPORT], 10_000)
  })

  it.each<[string, boolean, string | undefined]>([
    ['another agent works without a report', true, 'akri'],
    ['it does not say where its agent was', false, undefined],
  ])('does not stay for Instances of its node if %s', async (_why, isReady, agentNamespace) => {
    const agent = { agentPod: 'agent-before', ...(agentNamespace && { agentNamespace }) }
    world.putReport('a', 'True', agent)
    world.putAgent('a', isReady)
    world.api.putInstance(['a'])
    await world.start()
    await world.untilPresent('a', 'exchanged')
    await world.untilDeleted([REPORT], GRACE_MS / 10)
  })

  it('is deleted if an agent of the existing system has its place, and both run', async () => {
    world.putReport('a', 'True', AGENT)
    const volumes = [{ name: 'v', hostPath: { path: '/var/lib/kubelet' } }]
    const labels = { 'app.kubernetes.io/name': 'akri-agent' }
    putPod('other/pods/agent', { volumes }, { labels })
    world.api.putInstance(['a'])
    await world.start({ compatibility: 'akri-0.13' })
    await world.untilDeleted([REPORT], GRACE_MS / 10)
    expect(world.state.instances.cache.list()[0]?.spec.nodes).toEqual(['a'])
  })

  it('is deleted after the grace period, and not if the agent is only silent', async () => {
    world.putWorkingNodes('a')
    world.putNodes('b', 'c')
    world.putReport('b', 'True', { agentPod: world.putAgent('b', false) })
    world.putReport('c', 'True')
    await world.start()
    await world.untilWritten(1)
    world.putAgent('a', false)
    await world.untilWritten(2)
    world.removeAgent('a')
    await world.untilPresent('a', 'exchanged')
    await world.clock.advance(GRACE_MS - 1)
    expect(world.deletions).toEqual([])
    await world.clock.advance(1)
    await eventually(() => expect(world.deletions).toHaveLength(1))
    await world.clock.advance(10 * GRACE_MS)
    expect(world.deletions).toEqual([REPORT])
    await world.untilCounted(1, 1)
  })

  it('stays if the agent comes back in the grace period', async () => {
    world.putReport('a', 'True', { agentPod: 'agent-a' })
    await world.start()
    await world.clock.advance(GRACE_MS / 2)
    world.putAgent('a', true)
    await world.untilPresent('a', 'present')
    world.removeAgent('a')
    await world.untilPresent('a', 'exchanged')
    await world.clock.advance(GRACE_MS / 2)
    expect(world.deletions).toEqual([])
  })
})
