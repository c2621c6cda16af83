import type { NodeReport } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { describe, expect, it } from 'vitest'
import {
  configurationObject,
  EMPTY,
  existingFields,
  instanceObject,
} from '../testing/migrated-objects.js'
import { planForward } from './forward-plan.js'
import type { ProgramPod } from './migration-plan.js'

const NODE = 'node-a' as NodeName
const pod = (name: string, program: ProgramPod['program'] = 'agent'): ProgramPod => ({
  program,
  namespace: 'akri',
  name,
  node: NODE,
})
const report = (agentPod: string) => ({ metadata: { name: NODE }, agentPod }) as NodeReport
const finalized = (finalizers: readonly string[], ...managers: string[]) => ({
  finalizers,
  managedFields: existingFields(...managers),
})

describe('the plan of the way to akri.js', () => {
  it('A13 removes the finalizers that agents of the existing system left', () => {
    const both = finalized(['node-a', 'other.io/x', 'node-b'], 'node-a-fin', 'node-b-fin')
    const one = finalized(['node-a'], 'node-a-fin')
    const { changes, findings } = planForward({
      ...EMPTY,
      configurations: [configurationObject({}, one)],
      instances: [instanceObject({}, both)],
    })
    const path = '/metadata/finalizers'
    expect(changes).toMatchObject([
      { kind: 'Configuration', key: 'plant/cam', patch: [{ op: 'remove', path }] },
      { key: 'plant/cam-8120fe', patch: [{ op: 'replace', path, value: ['other.io/x'] }] },
    ])
    expect(changes[1]?.effects).toEqual(['remove the finalizers node-a, node-b'])
    expect(findings).toEqual([])
  })

  it.each<[string, string[], readonly ProgramPod[], number]>([
    ['of another program', ['kubectl'], [], 0],
    ['of a node with an agent of the existing system', ['node-a-fin'], [pod('existing')], 0],
    ['of a node with an agent of akri.js', ['node-a-fin'], [pod('ours')], 1],
    ['of a node with a controller', ['node-a-fin'], [pod('any', 'controller')], 1],
  ])('has as many finalizers %s', (_what, managers, programs, expected) => {
    const { changes, findings } = planForward({
      ...EMPTY,
      instances: [instanceObject({}, finalized(['node-a'], ...managers))],
      reports: [report('ours')],
      programs,
    })
    expect(changes).toHaveLength(expected)
    const stays = 'its finalizer node-a stays: Pod akri/existing of the existing system runs'
    expect(findings.map(({ text }) => text)).toEqual(
      programs[0]?.name === 'existing' ? [expect.stringContaining(stays)] : [],
    )
  })

  it('writes the fields that Instances of Akri 0.12 lack', () => {
    const deviceUsage = { 'cam-8120fe-0': 'node-a', 'cam-8120fe-1': '' }
    const early = instanceObject({ deviceUsage, cdiName: undefined, capacity: undefined })
    const { changes, findings } = planForward({ ...EMPTY, instances: [early] })
    expect(findings).toEqual([])
    expect(changes).toMatchObject([
      {
        key: 'plant/cam-8120fe',
        effects: [
          'write spec.cdiName, which is missing: akri.sh/cam=8120fe',
          'write spec.capacity, which is missing: 2',
        ],
        patch: [
          { op: 'add', path: '/spec/cdiName', value: 'akri.sh/cam=8120fe' },
          { op: 'add', path: '/spec/capacity', value: 2 },
        ],
      },
    ])
  })

  it('names an Instance that akri.js cannot read', () => {
    const instances = [instanceObject({ configurationName: undefined })]
    const { changes, findings } = planForward({ ...EMPTY, instances })
    expect(changes).toEqual([])
    expect(findings).toEqual([
      {
        level: 'warning',
        object: 'Instance plant/cam-8120fe',
        text: 'akri.js cannot read it, and does not offer its device: delete it',
      },
    ])
  })

  it('warns of Jobs that may run again, because they are deleted after their end', () => {
    const texts = (jobSpec: object, ...instances: object[]) =>
      planForward({
        ...EMPTY,
        configurations: [configurationObject({ brokerSpec: { brokerJobSpec: jobSpec } })],
        instances,
      }).findings.map(({ text }) => text)
    const brief = { ttlSecondsAfterFinished: 60 }
    expect(texts(brief, instanceObject())).toEqual([
      'its Jobs are deleted 60 s after their end, and nothing records that they have run: ' +
        'akri.js runs a Job again for each device that has none',
    ])
    const brokerJob = { name: 'cam-8120fe-1-job', specHash: 'x' }
    expect(texts(brief, { ...instanceObject(), status: { brokerJob } })).toEqual([])
    expect(texts(brief, instanceObject({ configurationName: 'other' }))).toEqual([])
    expect(texts({}, instanceObject())).toEqual([])
  })

  it('warns of what is different here', () => {
    const property = (name: string, reference: object) => ({
      name,
      valueFrom: { secretKeyRef: { key: 'k', name: 's', ...reference } },
    })
    const discoveryProperties = [
      property('A', {}),
      property('B', { namespace: 'plant' }),
      property('C', { namespace: 'vault' }),
    ]
    const { changes, findings } = planForward({
      ...EMPTY,
      configurations: [
        configurationObject({ discoveryHandler: { name: 'onvif', discoveryProperties } }),
        configurationObject(
          {},
          { name: 'cam-8120fe', uid: 'uid-young', creationTimestamp: '2026-02-01T00:00:00Z' },
        ),
        configurationObject({ capacity: -1 }, { name: 'dog', uid: 'uid-dog' }),
      ],
    })
    expect(changes).toEqual([])
    expect(findings.map(({ level, object, text }) => `${level} ${object}: ${text}`)).toEqual([
      expect.stringMatching(/^warning Configuration plant\/dog: .* not serve it: spec\.capacity: /),
      expect.stringMatching(/plant\/cam: its property A names the Secret s without a namespace/),
      expect.stringMatching(/its property C needs the annotation .* on the Secret vault\/s$/),
      expect.stringMatching(
        /plant\/cam-8120fe: .* the older Configuration plant\/cam has its name/,
      ),
    ])
  })
})
