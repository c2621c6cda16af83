import { keyOf } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestApi } from '../testing/api.js'
import { ownerReference, PODS, testConfiguration } from '../testing/objects.js'
import { reconcileDeployment } from './configuration-deployment.js'

describe('the Deployment of a Configuration', () => {
  let api: TestApi

  beforeEach(() => {
    api = new TestApi()
  })

  afterEach(async () => {
    await api.stop()
  })

  it('C8 R86 removes Pods that the kubelet refused; foreign Pods stay', async () => {
    const configuration = testConfiguration({ brokerSpec: { brokerDeploymentSpec: {} } })
    const named = (name: string) => ({ name, namespace: 'plant' })
    api.put('/apis/akri.sh/v0/namespaces/plant/configurations/cam', { ...configuration })
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
    const signal = new AbortController().signal
    await reconcileDeployment(keyOf(configuration), await api.term(), signal)
    expect([...api.objects.keys()].filter((path) => path.startsWith(PODS))).toEqual([
      `${PODS}/foreign`,
      `${PODS}/forged`,
    ])
  })
})
