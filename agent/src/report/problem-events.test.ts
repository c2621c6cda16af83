import type { Instance } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import type { Cluster } from '../cluster/cluster.js'
import { ProblemEvents } from './problem-events.js'

const configuration = objectKey('default', 'cam')
const refused = (...ids: string[]) =>
  new Map(ids.map((id) => [objectKey('default', `cam-${id}`), 'credential refused']))
const none = new Map()
const served = (id: string, ...nodes: string[]) => ({
  key: objectKey('default', `cam-${id}`),
  device: { id },
  existing: { spec: { nodes } } as unknown as Instance,
})

let recorded: string[]

function make(node = 'a'): ProblemEvents {
  recorded = []
  const recordEvent = ({
    regarding,
    type,
    reason,
    message,
  }: Parameters<Cluster['recordEvent']>[0]) =>
    void recorded.push(`${regarding.key} ${type} ${reason}: ${message}`)
  return new ProblemEvents({ recordEvent }, node as NodeName)
}

it('records one Event for the problem of a device, and one for its end', () => {
  const events = make()
  const both = () => [served('x', 'a'), served('y', 'a')]
  events.follow(configuration, refused('x'), both)
  events.follow(configuration, refused('x'), both)
  expect(recorded.splice(0)).toEqual(['default/cam-x Warning DeviceProblem: credential refused'])
  events.follow(configuration, none, both)
  events.follow(configuration, none, both)
  expect(recorded).toEqual(['default/cam-x Normal DeviceProblemOver: credential refused'])
})

it('records an Event on the first node of the Instance alone, when the Instance exists', () => {
  const events = make('b')
  events.follow(configuration, refused('x'), () => [served('x', 'a', 'b')])
  events.follow(configuration, refused('x'), () => [served('x')])
  expect(recorded).toEqual([])
  events.follow(configuration, refused('x'), () => [served('x', 'b')])
  expect(recorded).toEqual(['default/cam-x Warning DeviceProblem: credential refused'])
})

it('looks at no Instance without a problem', () => {
  const events = make()
  events.follow(configuration, none, () => expect.fail('Instances read'))
})
