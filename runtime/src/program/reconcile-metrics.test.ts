import { expect, it } from 'vitest'
import { ReconcileMetrics } from './reconcile-metrics.js'

it('counts reconciles, their errors by kind, and the objects of all queues of a kind', async () => {
  const metrics = new ReconcileMetrics(['Instance', 'Node'])
  expect(await metrics.measure('Instance', async () => 7)).toBe(7)
  const failing = metrics.measure('Instance', () => Promise.reject(new Error('no answer')))
  await expect(failing).rejects.toThrow('no answer')
  const [one, other] = [new AbortController(), new AbortController()]
  metrics.follow('Instance', () => 2, one.signal)
  metrics.follow('Instance', () => 3, other.signal)
  const text = await metrics.registry.metrics()
  for (const line of [
    'akri_reconcile_duration_seconds_count{kind="Instance"} 2',
    'akri_reconcile_duration_seconds_count{kind="Node"} 0',
    'akri_reconcile_errors_total{kind="Instance",error="transient"} 1',
    'akri_reconcile_errors_total{kind="Instance",error="bug"} 0',
    'akri_reconcile_errors_total{kind="Node",error="terminal"} 0',
    'akri_reconcile_queue_depth{kind="Instance"} 5',
    'akri_reconcile_queue_depth{kind="Node"} 0',
  ])
    expect(text).toContain(`${line}\n`)
  one.abort()
  expect(await metrics.registry.metrics()).toContain(
    'akri_reconcile_queue_depth{kind="Instance"} 3\n',
  )
})
