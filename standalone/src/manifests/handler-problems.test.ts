import type { Condition } from '@akrijs/api'
import { expect, it } from 'vitest'
import { configurationWith } from '../../../agent/src/testing/objects.js'
import { handlerProblem } from './handler-problems.js'

/** The problem of a Configuration with one condition. */
function problemOf(
  handler: string,
  type: Condition['type'],
  reason: string,
  status: Condition['status'] = 'False',
) {
  const condition = { type, status, reason, message: 'the reason', lastTransitionTime: '' }
  const slots = { total: 0, claimed: 0 }
  const all = { observedGeneration: 1, devices: 0, slots, nodes: {}, conditions: [condition] }
  return handlerProblem({ ...configurationWith({ handler }), status: all }, ['debugEcho', 'udev'])
}

it.each([
  ['InvalidDetails', 'discoveryDetails'],
  ['MissingProperty', 'discoveryProperties'],
  ['PropertyForbidden', 'discoveryProperties'],
  ['PropertyRefused', 'discoveryProperties'],
  ['UnreadableProperty', 'discoveryProperties'],
])('names the field of a Configuration whose condition is %s', (reason, field) => {
  const path = `spec.discoveryHandler.${field}`
  expect(problemOf('udev', 'Discovering', reason)).toEqual({ path, message: 'the reason' })
})

it.each([
  ['udve', 'the reason; did you mean udev?'],
  ['cameras', 'the reason'],
])('names the handler %s that is not loaded', (handler, message) => {
  const path = 'spec.discoveryHandler.name'
  expect(problemOf(handler, 'HandlerConnected', 'NoHandler')).toEqual({ path, message })
})

it('reports no problem of a loaded handler that has not registered or fails', () => {
  expect(problemOf('udev', 'HandlerConnected', 'NoHandler')).toBeUndefined()
  expect(problemOf('udev', 'HandlerConnected', 'HandlerFailed')).toBeUndefined()
  expect(problemOf('udev', 'HandlerConnected', 'Connected', 'True')).toBeUndefined()
})
