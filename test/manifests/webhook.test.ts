import { readFileSync } from 'node:fs'
import path from 'node:path'
import { commanderOptions } from '@akrijs/runtime/program'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { BUNDLED_TYPES } from '../../api/src/generated/bundled-types.js'
import { checkType } from '../../api/src/kubernetes/check-type.js'
import { webhookOptions } from '../../webhook/src/program/webhook-options.js'
import { REVIEWED_RULES } from '../../webhook/src/webhook-registration.js'
import { MANIFESTS } from './folder.js'

// The webhook's manifests must match the program and each other.

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

const folder = path.join(MANIFESTS, 'webhook')
const read = <T>(file: string) => load(readFileSync(path.join(folder, file), 'utf8')) as T

interface Deployment extends Manifest {
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> }
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
        }[]
      }
    }
  }
}

const deployment = read<Deployment>('deployment.yaml')
const pod = deployment.spec.template
const container = pod.spec.containers[0] ?? expect.fail('the Deployment has no container')
const environment = new Map(container.env.map(({ name, value }) => [name, value]))
const options = commanderOptions(webhookOptions)
const defaultOf = (variable: string): unknown =>
  options.find(({ envVar }) => envVar === variable)?.defaultValue

describe('deploy/manifests/webhook', () => {
  it('runs on the ports of the program', () => {
    expect(
      Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort])),
    ).toEqual({
      https: defaultOf('AKRI_WEBHOOK_PORT'),
      metrics: Number(environment.get('METRICS_PORT')),
    })
  })

  it('registers the Service of these Pods, and gives both the names that the program knows', () => {
    const service = read<Manifest & { spec: { selector: object; ports: object[] } }>('service.yaml')
    const registration = read<
      Manifest & {
        webhooks: { name: string; clientConfig: { service: object }; rules: object[] }[]
      }
    >('validating-webhook-configuration.yaml')
    expect(pod.metadata.labels).toMatchObject(service.spec.selector)
    expect(service.spec.ports).toEqual([
      expect.objectContaining({ port: 443, targetPort: 'https' }),
    ])
    expect(service.metadata.name).toBe(defaultOf('AKRI_WEBHOOK_SERVICE'))
    const { name, namespace } = service.metadata
    expect(registration.webhooks).toEqual([
      expect.objectContaining({
        name: `${name}.${namespace}.svc`,
        clientConfig: { service: { name, namespace, port: 443, path: '/validate' } },
        rules: REVIEWED_RULES,
      }),
    ])
    // The program owns these fields.
    expect(registration.webhooks[0]).not.toHaveProperty('failurePolicy')
    expect(registration.webhooks[0]).not.toHaveProperty('clientConfig.caBundle')
    expect(registration.metadata.name).toBe(environment.get('AKRI_WEBHOOK_CONFIGURATION'))
    expect(JSON.stringify(read('role.yaml'))).toContain(
      JSON.stringify([defaultOf('AKRI_CERTIFICATE_SECRET')]),
    )
  })

  it('has specs that the webhook itself accepts', () => {
    const check = (file: string, root: 'deploymentSpec' | 'serviceSpec') =>
      checkType(read<{ spec: unknown }>(file).spec, {
        types: BUNDLED_TYPES,
        root,
        path: 'spec',
        limit: 10,
      })
    expect([
      ...check('deployment.yaml', 'deploymentSpec'),
      ...check('service.yaml', 'serviceSpec'),
    ]).toEqual([])
  })
})
