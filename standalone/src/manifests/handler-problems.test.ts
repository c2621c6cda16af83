import type { Condition, Configuration } from '@akrijs/api'
import { expect, it } from 'vitest'
import { configurationWith } from '../../../agent/src/testing/objects.js'
import { handlerProblem } from './handler-problems.js'

const configuration = (
  handler: string,
  type: Condition['type'],
  status: Condition['status'],
  reason: string,
): Configuration => ({
  ...configurationWith({ handler }),
  status: {
    observedGeneration: 1,
    devices: 0,
    slots: { total: 0, claimed: 0 },
    nodes: {},
    conditions: [{ type, status, reason, message: 'the reason', lastTransitionTime: '' }],
  },
})
const loaded = ['debugEcho', 'udev']

it.each<[string, Condition['type'], string, string, string]>([
  ['udev', 'Discovering', 'InvalidDetails', 'spec.discoveryHandler.discoveryDetails', 'the reason'],
  [
    'udev',
    'Discovering',
    'MissingProperty',
    'spec.discoveryHandler.discoveryProperties',
    'the reason',
  ],
  [
    'udev',
    'Discovering',
    'PropertyForbidden',
    'spec.discoveryHandler.discoveryProperties',
    'the reason',
  ],
  [
    'udev',
    'Discovering',
    'PropertyRefused',
    'spec.discoveryHandler.discoveryProperties',
    'the reason',
  ],
  [
    'udev',
    'Discovering',
    'UnreadableProperty',
    'spec.discoveryHandler.discoveryProperties',
    'the reason',
  ],
  [
    'udve',
    'HandlerConnected',
    'NoHandler',
    'spec.discoveryHandler.name',
    'the reason; did you mean udev?',
  ],
  ['cameras', 'HandlerConnected', 'NoHandler', 'spec.discoveryHandler.name', 'the reason'],
])(
  'names the field of a Configuration for %s whose condition %s is %s',
  (handler, type, reason, path, message) => {
    expect(handlerProblem(configuration(handler, type, 'False', reason), loaded)).toEqual({
      path,
      message,
    })
  },
)

it('reports no problem of a loaded handler that has not registered or fails', () => {
  expect(
    handlerProblem(configuration('udev', 'HandlerConnected', 'False', 'NoHandler'), loaded),
  ).toBeUndefined()
  expect(
    handlerProblem(configuration('udev', 'HandlerConnected', 'False', 'HandlerFailed'), loaded),
  ).toBeUndefined()
  expect(
    handlerProblem(configuration('udev', 'HandlerConnected', 'True', 'Connected'), loaded),
  ).toBeUndefined()
})
