import type { Instance, InstanceName, NodeStatus } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { beforeEach, describe, expect, it } from 'vitest'
import { ProblemEvents } from './problem-events.js'

const key = objectKey('default', 'cam')
let recorded: string[]
let events: ProblemEvents

beforeEach(() => {
  recorded = []
  const cluster: ConstructorParameters<typeof ProblemEvents>[0] = {
    recordEvent: ({ regarding, type, reason, message }) =>
      void recorded.push(`${regarding.key} ${type} ${reason}: ${message}`),
  }
  events = new ProblemEvents(cluster, 'b' as NodeName)
})

describe('of a Configuration', () => {
  type Finding = readonly [status: 'True' | 'False' | 'Unknown', reason: string, message?: string]
  const status = (...findings: Finding[]): NodeStatus => ({
    observedGeneration: 1,
    devices: 0,
    conditions: findings.map(([status, reason, message = 'm'], index) => {
      const type = index === 0 ? 'Discovering' : 'HandlerConnected'
      return { type, status, reason, message }
    }),
  })

  it('there is one Event for a problem, for each other problem, and for the end', () => {
    const unreachable: Finding = ['False', 'Unreachable']
    const steps: [Finding, string | undefined][] = [
      [['True', 'Listening'], undefined],
      [unreachable, 'Warning Unreachable: m'],
      [unreachable, undefined],
      [['Unknown', 'Waiting'], undefined],
      [unreachable, undefined],
      [['False', 'InvalidDetails', 'udevRules[0]'], 'Warning InvalidDetails: udevRules[0]'],
      [['True', 'Listening'], 'Normal Listening: m'],
      [['True', 'Listening'], undefined],
    ]
    for (const [finding, expected] of steps) {
      events.followStatus(key, status(finding))
      expect(recorded.splice(0)).toEqual(expected ? [`${key} ${expected}`] : [])
    }
  })

  it('there is one Event for a problem in two conditions, and again after it was forgotten', () => {
    const lost: Finding = ['False', 'HandlerFailed', 'bus lost']
    for (let round = 0; round < 2; round++) {
      events.followStatus(key, status(lost, lost))
      expect(recorded.splice(0)).toEqual([`${key} Warning HandlerFailed: bus lost`])
      events.forget(key)
    }
  })
})

describe('of a device', () => {
  const instance = objectKey('default', 'cam-x')
  const name = 'cam-x' as InstanceName
  const refused = new Map([[name, 'credential refused']])
  const follow = (problems: Map<never, string> | typeof refused, ...nodes: string[]) => {
    const existing = { spec: { nodes } } as unknown as Instance
    events.followDevices(key, problems, [{ key: instance, name, device: { id: 'x' }, existing }])
    return recorded.splice(0)
  }

  it('there is one Event for its problem and one for its end, on the first node alone', () => {
    const begin = [`${instance} Warning DeviceProblem: credential refused`]
    const over = [`${instance} Normal DeviceProblemOver: credential refused`]
    expect(follow(refused, 'a', 'b')).toEqual([])
    // The Instance does not exist yet.
    expect(follow(refused)).toEqual([])
    expect(follow(refused, 'b')).toEqual(begin)
    expect(follow(refused, 'b', 'c')).toEqual([])
    expect(follow(new Map(), 'b')).toEqual(over)
    expect(follow(new Map(), 'b')).toEqual([])
  })
})
