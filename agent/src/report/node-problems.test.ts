import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, expect, it } from 'vitest'
import type { Cluster } from '../cluster/cluster.js'
import { NodeProblems, problemOf } from './node-problems.js'

type ObjectEvent = Parameters<Cluster['recordEvent']>[0]

const pod = objectKey('akri', 'akri-agent-x')
const MINUTE_MS = 60_000

let clock: ManualClock
let events: ObjectEvent[]
let problems: NodeProblems

beforeEach(() => {
  clock = new ManualClock()
  events = []
  problems = new NodeProblems({
    node: 'node-a' as NodeName,
    clock,
    pod,
    pods: { uidOf: (key) => (key === pod ? 'u1' : undefined) },
    cluster: { recordEvent: (event) => void events.push(event) },
  })
})

const said = () => events.splice(0).map(({ reason, message }) => `${reason}: ${message}`)
const error = new Error('rpc error')
const TEXT = 'node node-a: the kubelet has not registered a device plugin'

it('gives an Event of the Pod of the agent at the first failure', () => {
  problems.add('RegistrationFailed', error)
  expect(events).toEqual([
    {
      regarding: { apiVersion: 'v1', kind: 'Pod', key: pod, uid: 'u1' },
      type: 'Warning',
      reason: 'RegistrationFailed',
      message: `${TEXT}: rpc error`,
    },
  ])
})

it('gives one Event in ten minutes for all failures of a kind, and counts them', async () => {
  for (let round = 0; round < 1000; round++) problems.add('RegistrationFailed', error)
  problems.add('DiskFull', error)
  expect(said()).toHaveLength(2)
  await clock.advance(10 * MINUTE_MS - 1)
  problems.add('RegistrationFailed', error)
  expect(said()).toEqual([])
  await clock.advance(1)
  problems.add('RegistrationFailed', new Error('another'))
  expect(said()).toEqual([`RegistrationFailed: ${TEXT} (1001 times): another`])
})

it('keeps an Event until the API server answers again', () => {
  problems.apiFails()
  problems.add('ApiRequestFailed', error)
  problems.add('ApiRequestFailed', error)
  expect(said()).toEqual([])
  problems.apiAnswers()
  problems.apiAnswers()
  expect(said()).toEqual([
    'ApiRequestFailed: node node-a: the API server did not do what the agent asked for (2 times):' +
      ' rpc error',
  ])
})

it('finds a full disk behind another error', () => {
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' })
  expect(problemOf(full, 'StateNotWritten')).toBe('DiskFull')
  expect(problemOf(new Error('not served', { cause: full }), 'RegistrationFailed')).toBe('DiskFull')
  expect(problemOf(error, 'StateNotWritten')).toBe('StateNotWritten')
  const endless = new Error('a circle')
  endless.cause = endless
  expect(problemOf(endless, 'StateNotWritten')).toBe('StateNotWritten')
})
