import type { InstanceName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import type { DeviceReport } from '@akrijs/sdk/handler'
import { expect, it } from 'vitest'
import { deviceProblems, findings, MAX_FINDINGS, problemsByInstance } from './device-problems.js'

const problem = (reason: string, ...ids: string[]): DeviceReport => ({
  reason,
  count: ids.length,
  ids,
  listed: true,
})
const nameOf = (id: string) => `cam-${id}` as InstanceName
const keyOf = (id: string) => objectKey('default', nameOf(id))
const served = (...ids: string[]) =>
  ids.map((id) => ({ key: keyOf(id), name: nameOf(id), device: { id }, existing: undefined }))

it('gives the problem of each served device, and of no device that is left out', () => {
  const reports = [problem('refused', 'x', 'gone'), { ...problem('401', 'y'), listed: false }]
  expect(problemsByInstance(reports, served('x', 'y', 'z'))).toEqual(
    new Map([[nameOf('x'), 'refused']]),
  )
})

it('reports the same for the same problems in any order', () => {
  const reports = [problem('slow', 'c', 'a'), problem('refused', 'b')]
  const expected = [
    { reason: 'refused', instances: ['cam-b'] },
    { reason: 'slow', instances: ['cam-a', 'cam-c'] },
  ]
  for (const ids of [
    ['a', 'b', 'c'],
    ['c', 'b', 'a'],
  ])
    expect(deviceProblems(problemsByInstance(reports, served(...ids)))).toEqual(expected)
})

it('reports one problem of each Instance: what the agent found comes before its handler', () => {
  const found = { found: 'HandlerLost', reason: 'refused' } as const
  const problems = problemsByInstance([problem('refused', 'a', 'b')], served('a', 'b'))
  expect(deviceProblems(problems, new Map([[nameOf('a'), found]]))).toEqual([
    { reason: 'refused', instances: ['cam-b'] },
    { ...found, instances: ['cam-a'] },
  ])
})

it('finds the same of too many lost devices in any order, and none without any', () => {
  const ids = Array.from({ length: 3000 }, (_, index) => `${10_000 + index}`)
  const set = (all: readonly string[], healthy: boolean) => ({
    devices: new Map(
      all.map(
        (id) => [id, { device: { id, hash: '' }, shared: true, endpoint: 'x', healthy }] as const,
      ),
    ),
    complete: true,
    leftOut: undefined,
  })
  const lost = [nameOf('0')]
  const [one, other] = [ids, ids.toReversed()].map((all) =>
    findings(set(all, false), served(...all), lost),
  )
  expect(one).toEqual(other)
  expect(one?.size).toBe(MAX_FINDINGS)
  expect(one?.get(nameOf('0'))?.found).toBe('DeviceLost')
  expect(findings(set(ids, true), served(...ids), [])).toEqual(new Map())
})
