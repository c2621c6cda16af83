import { parseNodeReport } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { describe, expect, it } from 'vitest'
import {
  configurationObject,
  EMPTY,
  existingFields,
  instanceObject,
} from '../testing/migrated-objects.js'
import { planBack } from './back-plan.js'
import type { ClusterSnapshot } from './cluster-snapshot.js'

const plan = (snapshot: Partial<ClusterSnapshot>, ignoreRunning = false) =>
  planBack({ ...EMPTY, ...snapshot }, { ignoreRunning })
const levels = ({ findings }: ReturnType<typeof plan>) =>
  findings.map(({ level, text }) => `${level}: ${text}`)
const container = { containers: [] }

describe('the plan of the way back to the existing system', () => {
  it('removes free slots, and writes claims of Configurations in the form there', () => {
    const instance = (digest: string, ...usage: readonly string[]) =>
      instanceObject(
        {
          capacity: usage.length,
          deviceUsage: Object.fromEntries(
            usage.map((value, slot) => [`cam-${digest}-${slot}`, value]),
          ),
        },
        { name: `cam-${digest}`, uid: digest },
      )
    const { changes, findings } = plan({
      instances: [
        instance('000001', '', 'C:0:node-a', 'node-a', 'C:x:node-b'),
        // A claim from before the change to akri.js has the number 0 of this node already.
        instance('000002', 'C:cam-0:node-a', 'C:1:node-a'),
      ],
    })
    const path = (slot: string) => `/spec/deviceUsage/cam-${slot}`
    expect(changes.map(({ patch }) => patch)).toEqual([
      [
        { op: 'remove', path: path('000001-0') },
        { op: 'replace', path: path('000001-1'), value: 'C:cam-1:node-a' },
        { op: 'replace', path: path('000001-3'), value: 'C:cam-0:node-b' },
      ],
      [{ op: 'replace', path: path('000002-1'), value: 'C:cam-2:node-a' }],
    ])
    expect(changes[0]?.effects).toEqual([
      'remove free slots (1)',
      'cam-000001-1: C:0:node-a becomes C:cam-1:node-a',
      'cam-000001-3: C:x:node-b becomes C:cam-0:node-b',
      'give its fields to node-a, dp-node-a, dp-node-b',
    ])
    expect(findings.map(({ level, text }) => [level, text.slice(0, 43)])).toEqual(
      ['cam-000001-1 on node-a', 'cam-000001-3 on node-b', 'cam-000002-1 on node-a'].map(
        (which) => ['warning', `create the Pod with ${which} `],
      ),
    )
  })

  it('removes statuses, but not the record of a Job, once no program of akri.js runs', () => {
    const condition = { type: 'Ready', status: 'True', reason: 'R', message: '' }
    const lastTransitionTime = '2026-01-01T00:00:00Z'
    const status = {
      observedGeneration: 1,
      conditions: [{ ...condition, lastTransitionTime }],
      devices: 1,
      slots: { total: 1, claimed: 0 },
      nodes: {},
    }
    const job = { brokerJob: { name: 'j', specHash: 'h' } }
    const snapshot = (ofInstance: object) => ({
      configurations: [{ ...configurationObject(), status }],
      instances: [
        { ...instanceObject({}, { managedFields: existingFields('node-a') }), status: ofInstance },
      ],
    })
    const { changes } = plan(snapshot({ ...job, brokerInfo: { a: 'b' } }))
    expect(changes).toMatchObject([
      { kind: 'Configuration', patch: [], status: null },
      { kind: 'Instance', patch: [], status: { conditions: null, brokerInfo: null } },
    ])
    expect(plan(snapshot(job)).changes).toHaveLength(1)
    const programs = [
      { program: 'controller', namespace: 'akri', name: 'c', node: 'node-a' as NodeName } as const,
    ]
    expect(plan({ ...snapshot(job), programs }, true).changes).toEqual([])
  })

  it('gives the fields of the spec to the managers there', () => {
    const deviceUsage = { 'cam-8120fe-0': 'node-a', 'cam-8120fe-1': 'C:cam-0:node-b' }
    const spec = { nodes: ['node-a', 'node-b'], deviceUsage }
    const managers = ['node-a', 'node-b', 'dp-node-a', 'dp-node-b']
    const fields = existingFields(...managers, 'node-a-fin')
    const withFields = (...managedFields: object[]) =>
      plan({ instances: [instanceObject(spec, { managedFields })] })
    expect(withFields(...fields)).toEqual({ changes: [], findings: [] })
    const status = { ...fields[0], manager: 'akri-controller', subresource: 'status' }
    expect(withFields(...fields, status).changes).toEqual([])
    const update = { ...fields[0], manager: 'akri-agent', operation: 'Update' }
    for (const other of [[...fields, update], fields.slice(1), fields.slice(0, -2)])
      expect(withFields(...other).changes).toMatchObject([
        {
          patch: [],
          owners: [
            { manager: 'node-a', spec: { capacity: 2, nodes: ['node-a'], deviceUsage: {} } },
            { manager: 'node-b', spec: { capacity: 2, nodes: ['node-b'], deviceUsage: {} } },
            { manager: 'dp-node-a', spec: { deviceUsage: { 'cam-8120fe-0': 'node-a' } } },
            { manager: 'dp-node-b', spec: { deviceUsage: { 'cam-8120fe-1': 'C:cam-0:node-b' } } },
          ],
        },
      ])
  })

  it.each<[string, object, RegExp]>([
    ['a slot beyond the capacity', { 'cam-8120fe-2': 'node-a' }, /beyond the capacity 2: end its/],
    ['a value that no system reads', { 'cam-8120fe-0': 'C:x' }, /unreadable value C:x/],
  ])('stops at %s', (_what, deviceUsage, text) => {
    const found = levels(plan({ instances: [instanceObject({ deviceUsage })] }))
    expect(found).toEqual([expect.stringMatching(text)])
    expect(found[0]).toMatch(/^obstacle: /)
  })

  it('removes a free slot beyond the capacity', () => {
    const deviceUsage = { 'cam-8120fe-2': '' }
    const { changes, findings } = plan({ instances: [instanceObject({ deviceUsage })] })
    expect(findings).toEqual([])
    expect(changes[0]?.patch).toEqual([{ op: 'remove', path: '/spec/deviceUsage/cam-8120fe-2' }])
  })

  it.each<[string, object, object[]]>([
    [
      'nulls',
      { brokerProperties: null, discoveryHandler: { name: 'none', discoveryDetails: null } },
      [
        { op: 'remove', path: '/spec/brokerProperties' },
        { op: 'remove', path: '/spec/discoveryHandler/discoveryDetails' },
      ],
    ],
    [
      'updateStrategy',
      { brokerSpec: { brokerPodSpec: container, updateStrategy: { type: 'OnDelete' } } },
      [{ op: 'replace', path: '/spec/brokerSpec', value: { brokerPodSpec: container } }],
    ],
    [
      'a brokerSpec without a template',
      { brokerSpec: { brokerDeploymentSpec: null, updateStrategy: {} } },
      [{ op: 'remove', path: '/spec/brokerSpec' }],
    ],
    ['nothing of what the existing system has', { brokerSpec: { brokerJobSpec: {} } }, []],
  ])('A25 removes from a Configuration: %s', (_what, spec, patch) => {
    const { changes, findings } = plan({ configurations: [configurationObject(spec)] })
    expect(changes.flatMap((change) => change.patch)).toEqual(patch)
    expect(findings).toEqual([])
  })

  it('A25 stops at a kind of broker that the existing system does not have', () => {
    const brokerSpec = { brokerDeploymentSpec: { template: {} } }
    const found = levels(plan({ configurations: [configurationObject({ brokerSpec })] }))
    expect(found).toEqual([expect.stringMatching(/^obstacle: .*brokerDeploymentSpec/)])
  })

  describe('with a reference that has no namespace', () => {
    const selector = { name: 's', key: 'k' }
    const discoveryHandler = {
      name: 'onvif',
      discoveryProperties: [
        { name: 'A', value: 'x' },
        { name: 'B', valueFrom: { secretKeyRef: selector } },
        { name: 'C', valueFrom: { configMapKeyRef: { ...selector, name: 'm' } } },
        { name: 'D', valueFrom: { secretKeyRef: { ...selector, namespace: 'vault' } } },
      ],
    }
    const at = (index: number, field: string) =>
      `/spec/discoveryHandler/discoveryProperties/${index}/valueFrom/${field}/namespace`
    const served = {
      ...configurationObject({ discoveryHandler }),
      status: {
        observedGeneration: 1,
        conditions: [],
        devices: 0,
        slots: { total: 0, claimed: 0 },
        nodes: {},
      },
    }

    it('writes the namespace that akri.js has taken', () => {
      const { changes, findings } = plan({ configurations: [served] })
      expect(findings).toEqual([])
      expect(changes).toMatchObject([
        {
          effects: [
            'write the namespace of the Secret plant/s, property B',
            'write the namespace of the ConfigMap plant/m, property C',
            'remove its status',
          ],
          patch: [
            { op: 'add', path: at(1, 'secretKeyRef'), value: 'plant' },
            { op: 'add', path: at(2, 'configMapKeyRef'), value: 'plant' },
          ],
        },
      ])
    })

    it('writes it too if only the report of a node has the Configuration', () => {
      const reported = { uid: 'uid-cam', observedGeneration: 1, devices: 0, conditions: [] }
      const report = parseNodeReport({
        metadata: { ...served.metadata, name: 'node-a' },
        configurations: { 'plant/cam': reported },
      })
      const { changes } = plan({
        configurations: [configurationObject({ discoveryHandler })],
        reports: [report ?? expect.fail('no report')],
      })
      expect(changes.flatMap(({ patch }) => patch)).toHaveLength(2)
    })

    const programs = [
      { program: 'agent', namespace: 'default', name: 'existing', node: 'node-a' as NodeName },
    ] as const
    it.each([
      ['akri.js has not served the Configuration', { configurations: [{ ...served, status: {} }] }],
      ['agents of the existing system run', { configurations: [served], programs }],
    ])('warns if %s: each system means another namespace', (_what, snapshot) => {
      const { changes, findings } = plan(snapshot, true)
      expect(changes).toEqual([])
      expect(findings.filter(({ object }) => object === 'Configuration plant/cam')).toEqual(
        ['B names the Secret s', 'C names the ConfigMap m'].map((what) => ({
          level: 'warning',
          object: 'Configuration plant/cam',
          text:
            `its property ${what} without a namespace: the existing system takes that of ` +
            'default, akri.js that of plant: write the one that you mean',
        })),
      )
    })

    it('leaves it alone in the namespace default: both systems mean the same', () => {
      const metadata = { ...served.metadata, namespace: 'default' }
      const found = plan({ configurations: [{ ...served, metadata }] })
      expect(found).toMatchObject({ changes: [{ patch: [] }], findings: [] })
    })
  })

  it('warns of details that the existing system ignores or cannot read', () => {
    const discoveryDetails = 'allowedNetworks: [10.0.0.0/8]'
    const discoveryHandler = { name: 'onvif', discoveryDetails }
    const found = levels(plan({ configurations: [configurationObject({ discoveryHandler })] }))
    expect(found).toEqual([
      'warning: spec.discoveryHandler.discoveryDetails.allowedNetworks: the existing system ' +
        'ignores it: it calls and offers cameras of all networks',
    ])
  })

  it('stops while agents and controllers run, unless it is told to go on', () => {
    const programs = Array.from({ length: 7 }, (_, index) => ({
      program: 'agent' as const,
      namespace: 'akri',
      name: `agent-${index}`,
      node: 'node-a' as NodeName,
    }))
    const found = levels(plan({ programs }))
    expect(found).toHaveLength(6)
    expect(found[0]).toBe('obstacle: this agent runs, and would undo the changes: stop it first')
    expect(found[5]).toBe('obstacle: 2 others run too')
    expect(levels(plan({ programs }, true))[0]).toMatch(/^warning: /)
  })

  it('leaves an Instance alone that is being deleted', () => {
    const deletion = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['node-x'] }
    const { changes, findings } = plan({ instances: [instanceObject({}, deletion)] })
    expect(changes).toEqual([])
    expect(findings).toMatchObject([{ text: 'it is being deleted; its finalizers are node-x' }])
  })
})
