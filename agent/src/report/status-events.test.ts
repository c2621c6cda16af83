import type { NodeStatus } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { StatusEvents } from './status-events.js'

it('records one Event for a problem, for each other problem, and for the end', () => {
  const told: string[] = []
  const events = new StatusEvents({
    recordEvent: ({ type, reason, message }) => void told.push(`${type} ${reason}: ${message}`),
  })
  const key = objectKey('default', 'cam')
  const say = (status: 'True' | 'False' | 'Unknown', reason: string, message = 'm') => {
    const report: NodeStatus = {
      observedGeneration: 1,
      devices: 0,
      conditions: [{ type: 'Discovering', status, reason, message }],
    }
    events.follow(key, report)
  }
  say('True', 'Listening')
  expect(told).toEqual([])
  say('False', 'Unreachable')
  say('False', 'Unreachable')
  say('Unknown', 'Waiting')
  say('False', 'Unreachable')
  expect(told.splice(0)).toEqual(['Warning Unreachable: m'])
  say('False', 'InvalidDetails', 'udevRules[0]')
  say('True', 'Listening')
  say('True', 'Listening')
  expect(told).toEqual(['Warning InvalidDetails: udevRules[0]', 'Normal Listening: m'])
})

it('records one Event for a problem in two conditions', () => {
  const told: string[] = []
  const events = new StatusEvents({
    recordEvent: ({ reason, message }) => void told.push(`${reason}: ${message}`),
  })
  const conditions = (['HandlerConnected', 'Discovering'] as const).map(
    (type) => ({ type, status: 'False', reason: 'HandlerFailed', message: 'bus lost' }) as const,
  )
  events.follow(objectKey('default', 'cam'), { observedGeneration: 1, devices: 0, conditions })
  events.follow(objectKey('default', 'dog'), { observedGeneration: 1, devices: 0, conditions })
  expect(told).toEqual(['HandlerFailed: bus lost', 'HandlerFailed: bus lost'])
})
