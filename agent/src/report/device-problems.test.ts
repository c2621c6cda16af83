import type { InstanceName } from '@akrijs/api'
import type { DeviceReport } from '@akrijs/sdk/handler'
import { expect, it } from 'vitest'
import { found, plannedWith, setOf } from '../testing/objects.js'
import { deviceProblems, findings, MAX_FINDINGS, reportedProblems } from './device-problems.js'

const problem = (reason: string, ...ids: string[]): DeviceReport => ({
  ...{ reason, count: ids.length, ids },
  listed: true,
})
const nameOf = (id: string) => `cam-${id}` as InstanceName
const served = (...ids: string[]) => ids.map((id) => plannedWith(id))

it('reports the problems of served devices, the same in any order, and of no others', () => {
  const leftOut = { ...problem('401', 'd'), listed: false }
  const reports = [problem('slow', 'c', 'a', 'gone'), problem('refused', 'b', 'd'), leftOut]
  const expected = [
    { reason: 'refused', instances: ['cam-b', 'cam-d'] },
    { reason: 'slow', instances: ['cam-a', 'cam-c'] },
  ]
  for (const ids of ['abcde', 'edcba'])
    expect(deviceProblems(reportedProblems(reports, served(...ids)))).toEqual(expected)
})

it('keeps problems of one text apart that the agent and the handler found', () => {
  const lost = { found: 'HandlerLost', reason: 'refused' } as const
  const problems = reportedProblems([problem('refused', 'a', 'b')], served('a', 'b'))
  expect(deviceProblems(new Map([...problems, [nameOf('a'), lost]]))).toEqual([
    { reason: 'refused', instances: ['cam-b'] },
    { ...lost, instances: ['cam-a'] },
  ])
})

it('has reasons in their bounds and without control characters', () => {
  const [text, stored] = ['no \u001b[2J', 'no \ufffd[2J']
  expect(reportedProblems([problem(text, 'a')], served('a')).get(nameOf('a'))?.reason).toBe(stored)
  const refused = setOf(found({ id: 'a' }, { healthy: false, refusal: text }))
  expect(findings(refused, served('a'), []).get(nameOf('a'))?.reason).toContain(stored)
})

it('finds the same of too many lost devices in any order, and none without any', () => {
  const ids = Array.from({ length: 3000 }, (_, index) => `${10_000 + index}`)
  const set = (healthy: boolean) => setOf(...ids.map((id) => found({ id }, { healthy })))
  const lost = [nameOf('0')]
  const [one, other] = [ids, ids.toReversed()].map((all) =>
    findings(set(false), served(...all), lost),
  )
  expect(one).toEqual(other)
  expect(one?.size).toBe(MAX_FINDINGS)
  expect(one?.get(nameOf('0'))?.found).toBe('DeviceLost')
  expect(findings(set(true), served(...ids), [])).toEqual(new Map())
})
