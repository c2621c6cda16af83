import type { Condition, Configuration } from '@akrijs/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Pod } from './kubernetes-objects.js'
import { ControllerMetrics } from './metrics.js'
import { testPod } from './testing/objects.js'

function metricsOf(pods: () => readonly Pod[], configurations: readonly object[] = []) {
  return new ControllerMetrics({
    pods,
    configurations: () => configurations as Configuration[],
    leads: () => true,
    apiSilenceMs: () => 1500,
  })
}

describe('the metrics of a controller', () => {
  it('C10 count the present brokers, whatever was counted before', async () => {
    const anyPod = fc.record({
      node: fc.constantFrom('a', 'b'),
      phase: fc.constantFrom<Pod['phase']>('Pending', 'Running', 'Succeeded', 'Failed', 'Unknown'),
      configuration: fc.constantFrom('cam', '"\\\n', '__proto__', undefined),
      isOwned: fc.boolean(),
      scheduled: fc.boolean(),
    })
    let pods: Pod[] = []
    const metrics = metricsOf(() => pods)
    await fc.assert(
      fc.asyncProperty(fc.array(anyPod, { maxLength: 10 }), async (samples) => {
        pods = samples.map(({ node, phase, configuration, isOwned, scheduled }) => {
          const pod = testPod(node, { phase, scheduled })
          const labels =
            configuration === undefined ? {} : { 'akri.sh/configuration': configuration }
          return {
            ...pod,
            metadata: { ...pod.metadata, labels, ...(isOwned ? {} : { ownerReferences: [] }) },
          }
        })
        const real = samples.filter(
          ({ phase, configuration, isOwned }) =>
            configuration !== undefined && isOwned && phase !== 'Succeeded' && phase !== 'Failed',
        )
        const gauge = await metrics.registry.getSingleMetric('akri_broker_pod_count')?.get()
        const found = (gauge?.values ?? []).filter(({ value }) => value > 0)
        for (const configuration of ['cam', '"\\\n', '__proto__'])
          for (const node of ['a', 'b']) {
            const count = real.filter(
              (pod) => pod.configuration === configuration && pod.node === node,
            ).length
            const value = found.find(
              ({ labels }) => labels.configuration === configuration && labels.node === node,
            )?.value
            expect(value ?? 0).toBe(count)
          }
        expect(found.reduce((sum, { value }) => sum + value, 0)).toBe(real.length)
      }),
    )
  })

  it('count restarts of Pods and of containers since the first scrape', async () => {
    const pod = (restarts: number, uid = 'u1') => {
      const { metadata, ...rest } = testPod('a')
      const labels = { 'akri.sh/configuration': 'cam' }
      return { ...rest, metadata: { ...metadata, uid, labels }, containerRestarts: restarts }
    }
    let pods = [pod(7)]
    const metrics = metricsOf(() => pods)
    const series = async () => {
      const found = await metrics.registry.getSingleMetric('akri_broker_restarts_total')?.get()
      return found?.values.map(({ labels, value }) => [labels.configuration, labels.what, value])
    }
    expect(await series()).toEqual([
      ['cam', 'pod', 0],
      ['cam', 'container', 0],
    ])
    pods = [pod(9), pod(1, 'u2')]
    metrics.brokerRestarted('cam')
    expect(await series()).toEqual([
      ['cam', 'pod', 1],
      ['cam', 'container', 3],
    ])
    pods = [pod(0, 'u3')]
    await series()
    for (let index = 0; index < 2000; index++) metrics.brokerRestarted(`other-${index}`)
    expect((await series())?.length).toBeLessThan(1100)
  })

  it('count conditions, and name the first Configurations with a problem', async () => {
    const configuration = (name: string, ready?: Condition['status']) => ({
      metadata: { namespace: 'plant', name },
      ...(ready && {
        status: { conditions: [{ type: 'Ready', status: ready }], nodeCounts: { silent: 2 } },
      }),
    })
    const all = [configuration('good', 'True')]
    for (let index = 0; index < 1000; index++) all.push(configuration(`bad-${index}`, 'False'))
    all.push(configuration('new'))
    const metrics = metricsOf(() => [], all)
    const text = await metrics.registry.metrics()
    for (const line of [
      'akri_configurations{condition="Ready",status="True"} 1',
      'akri_silent_nodes 2',
      'akri_configurations{condition="Ready",status="False"} 1000',
      'akri_configurations{condition="Ready",status="Unknown"} 1',
      'akri_configuration_problem{configuration_namespace="plant",configuration="bad-0",' +
        'condition="Ready"} 1',
    ])
      expect(text).toContain(`${line}\n`)
    expect(text.match(/^akri_configuration_problem\{/gm)).toHaveLength(200)
  })

  it('name problems of each namespace in turn', async () => {
    const status = { conditions: [{ type: 'Ready', status: 'False' }] }
    const all = Array.from({ length: 1000 }, (_, index) => ({
      metadata: { namespace: 'many', name: `bad-${index}` },
      status,
    }))
    all.push({ metadata: { namespace: 'plant', name: 'cam' }, status })
    const metrics = metricsOf(() => [], all)
    const gauge = await metrics.registry.getSingleMetric('akri_configuration_problem')?.get()
    expect(gauge?.values).toHaveLength(200)
    expect(gauge?.values.map(({ labels }) => labels.configuration)).toContain('cam')
  })

  it('count the restarts of a new Configuration after many others were deleted', async () => {
    const metrics = metricsOf(() => [])
    for (let index = 0; index < 500; index++) metrics.brokerRestarted(`other-${index}`)
    const restarts = metrics.registry.getSingleMetric('akri_broker_restarts_total')
    await restarts?.get()
    metrics.brokerRestarted('cam')
    const { values = [] } = (await restarts?.get()) ?? {}
    expect(values.find(({ labels }) => labels.configuration === 'cam')?.value).toBe(1)
  })

  const problems = async (conditions?: readonly Partial<Condition>[]) => {
    const metadata = { namespace: 'plant', name: 'x' }
    const configuration = { metadata, ...(conditions && { status: { conditions } }) }
    const metrics = metricsOf(() => [], [configuration])
    const gauge = await metrics.registry.getSingleMetric('akri_configuration_problem')?.get()
    return gauge?.values.map(({ labels }) => labels.condition)
  }

  it('count an unknown Ready among the problems, without others that it explains', async () => {
    const status = 'Unknown'
    const silent = (['HandlerConnected', 'Discovering', 'Ready'] as const).map(
      (type): Partial<Condition> => ({ type, status, reason: 'AgentSilent' }),
    )
    expect(await problems(silent)).toEqual(['Ready'])
    expect(await problems([{ type: 'Ready', status: 'True' }, ...silent.slice(0, 2)])).toEqual([])
    expect(await problems()).toEqual(['Ready'])
    expect(await problems([])).toEqual(['Ready'])
  })

  it('count no roll-out that goes on among the problems', async () => {
    const rollout = (reason: string) =>
      problems([
        { type: 'Ready', status: 'True' },
        { type: 'BrokersReady', status: 'False', reason },
      ])
    expect(await rollout('RollingOut')).toEqual([])
    expect(await rollout('RolloutStuck')).toEqual(['BrokersReady'])
  })

  it('show how long the API server is silent, and whether the replica leads', async () => {
    const text = await metricsOf(() => []).registry.metrics()
    expect(text).toContain('akri_api_silence_seconds 1.5\n')
    expect(text).toContain('akri_controller_leads 1\n')
  })
})
