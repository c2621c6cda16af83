import type { ConfigurationSpec } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestApi } from '../testing/api.js'
import {
  AKRI,
  CONFIGURATION,
  ownerReference,
  PODS,
  testConfiguration,
  testInstance,
} from '../testing/objects.js'
import {
  reconcileConfigurationService,
  reconcileDeployment,
  reconcileInstanceService,
} from './applied-objects.js'

const POD = '/api/v1/namespaces/plant/pods/a-pod'
const SERVICE = '/api/v1/namespaces/plant/services/cam-8120fe-svc'
const PORTS = { ports: [{ name: 'p', port: 80, protocol: 'TCP' }] }
const SPEC = { brokerSpec: { brokerPodSpec: {} }, instanceServiceSpec: PORTS }
const LABELS = {
  controller: 'akri.sh',
  'akri.sh/instance': 'cam-8120fe',
  'akri.sh/configuration': 'cam',
}

let api: TestApi
const instance = testInstance(['a'])

beforeEach(() => {
  api = new TestApi()
  api.put(`${AKRI}/instances/cam-8120fe`, { ...instance })
})

afterEach(async () => {
  await api.stop()
})

const broker = (phase: string) =>
  api.put(POD, {
    metadata: { name: 'a-pod', namespace: 'plant', labels: LABELS },
    status: { phase },
  })
const configuration = (spec: Partial<ConfigurationSpec>) => api.putConfiguration(spec)
const writes = () =>
  api.requests
    .filter(({ method }) => method !== 'GET')
    .map(({ method, path }) => `${method} ${path}`)

/** A controller whose caches are synced. */
async function controller() {
  const term = await api.term()
  const { signal } = new AbortController()
  return {
    state: term.state,
    reconcile: () => reconcileInstanceService(keyOf(instance), term, signal),
    reconcileConfiguration: () =>
      reconcileConfigurationService(keyOf(testConfiguration()), term, signal),
  }
}

describe('the Service of an Instance', () => {
  it('R61 R62 is created with the first running broker, and written once', async () => {
    configuration(SPEC)
    broker('Pending')
    const { state, reconcile } = await controller()
    await reconcile()
    expect(writes()).toEqual([])
    broker('Running')
    await api.seen(state.pods, POD)
    await reconcile()
    await reconcile()
    expect(writes()).toEqual([`PATCH ${SERVICE}`])
    expect(api.objects.get(SERVICE)).toMatchObject({
      metadata: {
        ownerReferences: [{ kind: 'Instance', uid: instance.metadata.uid, controller: true }],
      },
      spec: { ...PORTS, selector: { controller: 'akri.sh', 'akri.sh/instance': 'cam-8120fe' } },
    })
  })

  it('R102 is applied again after another manager took one of its fields', async () => {
    configuration(SPEC)
    broker('Running')
    const { state, reconcile } = await controller()
    await reconcile()
    const made = api.objects.get(SERVICE) ?? expect.fail('no Service')
    const fieldsV1 = { 'f:metadata': {}, 'f:spec': { 'f:ports': {} } }
    const managedFields = [{ manager: 'akri-controller', operation: 'Apply', fieldsV1 }]
    api.put(SERVICE, {
      ...made,
      metadata: { ...made.metadata, managedFields },
      spec: { ...PORTS, selector: { mine: 'x' } },
    })
    await api.seen(state.services, SERVICE)
    await reconcile()
    expect(api.objects.get(SERVICE)).toMatchObject({
      spec: { selector: { controller: 'akri.sh' } },
    })
    await reconcile()
    expect(writes()).toEqual([`PATCH ${SERVICE}`, `PATCH ${SERVICE}`])
  })

  it('R46 stays while a broker will run again, and goes by its uid with the spec', async () => {
    configuration(SPEC)
    broker('Running')
    const { state, reconcile } = await controller()
    await reconcile()
    api.remove(POD)
    await api.seen(state.pods, POD)
    await reconcile()
    const { uid } = api.objects.get(SERVICE)?.metadata ?? expect.fail('no Service')
    configuration({ instanceServiceSpec: PORTS })
    await api.seen(state.configurations, CONFIGURATION)
    await reconcile()
    expect(api.objects.has(SERVICE)).toBe(false)
    expect(api.sent('DELETE')).toMatchObject([{ preconditions: { uid } }])
  })

  it('is replaced if an immutable field changes', async () => {
    configuration(SPEC)
    broker('Running')
    const { state, reconcile } = await controller()
    await reconcile()
    const uid = state.services.cache.list()[0]?.metadata.uid
    configuration({ ...SPEC, instanceServiceSpec: { ...PORTS, clusterIP: '10.0.0.9' } })
    await api.seen(state.configurations, CONFIGURATION)
    api.refusal = ({ method }) =>
      method === 'PATCH' && api.objects.has(SERVICE)
        ? { status: 422, message: 'spec.clusterIP: field is immutable' }
        : undefined
    await reconcile()
    expect(api.objects.get(SERVICE)).toMatchObject({ spec: { clusterIP: '10.0.0.9' } })
    expect(state.services.cache.list()[0]?.metadata.uid).not.toBe(uid)
  })

  it('stays as it is if the API server refuses the change for another reason', async () => {
    configuration(SPEC)
    broker('Running')
    const { state, reconcile } = await controller()
    await reconcile()
    const before = api.objects.get(SERVICE)
    const ports = [{ port: 80, nodePort: 30_080 }]
    configuration({ ...SPEC, instanceServiceSpec: { ...PORTS, ports } })
    await api.seen(state.configurations, CONFIGURATION)
    api.refusal = ({ method }) =>
      method === 'PATCH'
        ? { status: 422, message: 'spec.ports[0].nodePort: provided port is already allocated' }
        : undefined
    await expect(reconcile()).rejects.toThrow('already allocated')
    expect(api.objects.get(SERVICE)).toEqual(before)
  })
})

describe('the Service of a Configuration', () => {
  const ALL = '/api/v1/namespaces/plant/services/cam-svc'

  it('R61 R96 selects all brokers, comes with the first, and goes with the spec', async () => {
    configuration({ ...SPEC, configurationServiceSpec: PORTS })
    broker('Pending')
    const { state, reconcileConfiguration } = await controller()
    await reconcileConfiguration()
    expect(writes()).toEqual([])
    broker('Running')
    await api.seen(state.pods, POD)
    await reconcileConfiguration()
    await reconcileConfiguration()
    expect(writes()).toEqual([`PATCH ${ALL}`])
    expect(api.objects.get(ALL)).toMatchObject({
      metadata: {
        ownerReferences: [
          { kind: 'Configuration', uid: testConfiguration().metadata.uid, controller: true },
        ],
      },
      spec: { ...PORTS, selector: { controller: 'akri.sh', 'akri.sh/configuration': 'cam' } },
    })
    configuration({ ...SPEC })
    await api.seen(state.configurations, CONFIGURATION)
    await reconcileConfiguration()
    expect(api.objects.has(ALL)).toBe(false)
  })
})

describe('the Deployment of a Configuration', () => {
  it('C8 R86 removes Pods that the kubelet refused; foreign Pods stay', async () => {
    const configuration = testConfiguration({ brokerSpec: { brokerDeploymentSpec: {} } })
    const named = (name: string) => ({ name, namespace: 'plant' })
    api.put(CONFIGURATION, { ...configuration })
    api.put('/apis/apps/v1/namespaces/plant/deployments/cam-deployment', {
      metadata: {
        ...named('cam-deployment'),
        labels: { controller: 'akri.sh' },
        ownerReferences: [ownerReference('Configuration', 'cam')],
      },
    })
    for (const [name, apiVersion, owner] of [
      ['own', 'apps/v1', 'cam-deployment-5d'],
      ['foreign', 'apps/v1', 'other-5d'],
      ['forged', 'x/v1', 'cam-deployment-5d'],
    ] as const)
      api.put(`${PODS}/${name}`, {
        metadata: {
          ...named(name),
          labels: {
            controller: 'akri.sh',
            'akri.sh/configuration': 'cam',
            'pod-template-hash': '5d',
          },
          ownerReferences: [{ ...ownerReference('ReplicaSet', owner), apiVersion }],
        },
        status: { phase: 'Failed', reason: 'UnexpectedAdmissionError' },
      })
    const { signal } = new AbortController()
    await reconcileDeployment(keyOf(configuration), await api.term(), signal)
    expect([...api.objects.keys()].filter((path) => path.startsWith(PODS))).toEqual([
      `${PODS}/foreign`,
      `${PODS}/forged`,
    ])
  })
})
