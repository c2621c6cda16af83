import type { Condition, Configuration } from '@akrijs/api'
import { expect, it } from 'vitest'
import { configurationWith } from '../../../agent/src/testing/objects.js'
import { handlerProblem } from './handler-problem.js'

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
    conditions: [{ type, status, reason, message: 'what it says', lastTransitionTime: '' }],
  },
})
const loaded = ['debugEcho', 'udev']

it.each<[string, Condition['type'], string, string, string]>([
  [
    'udev',
    'Discovering',
    'InvalidDetails',
    'spec.discoveryHandler.discoveryDetails',
    'what it says',
  ],
  [
    'udev',
    'Discovering',
    'MissingProperty',
    'spec.discoveryHandler.discoveryProperties',
    'what it says',
  ],
  [
    'udev',
    'Discovering',
    'UnreadableProperty',
    'spec.discoveryHandler.discoveryProperties',
    'what it says',
  ],
  [
    'udve',
    'HandlerConnected',
    'NoHandler',
    'spec.discoveryHandler.name',
    'what it says; did you mean udev?',
  ],
  ['cameras', 'HandlerConnected', 'NoHandler', 'spec.discoveryHandler.name', 'what it says'],
])(
  'names the field of a Configuration for %s whose condition %s is %s',
  (handler, type, reason, path, message) => {
    expect(handlerProblem(configuration(handler, type, 'False', reason), loaded)).toEqual({
      path,
      message,
    })
  },
)

it('has nothing to say of a handler that is loaded and has not registered yet, or that has failed for now', () => {
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
