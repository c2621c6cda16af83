import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Pod } from './kubernetes-objects.js'
import { ControllerMetrics } from './metrics.js'
import { testPod } from './testing/objects.js'

function metricsOf(pods: () => readonly Pod[], silence?: number): ControllerMetrics {
  return new ControllerMetrics({ pods, leads: () => true, apiSilenceMs: () => silence })
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

  it('show no silence before the first answer of the API server', async () => {
    const silenceOf = async (metrics: ControllerMetrics) =>
      (await metrics.registry.getSingleMetric('akri_api_silence_seconds')?.get())?.values.map(
        ({ value }) => value,
      )
    expect(await silenceOf(metricsOf(() => [], 1500))).toEqual([1.5])
    expect(await metricsOf(() => []).registry.metrics()).toContain('akri_controller_leads 1')
  })
})
