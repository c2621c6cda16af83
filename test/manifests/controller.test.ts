import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { commanderOptions } from '@akrijs/runtime/program'
import { load, loadAll } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { controllerOptions } from '../../controller/src/program/controller-options.js'
import { IMAGE } from '../e2e/support/image.js'
import { MANIFESTS } from './folder.js'

// The controller's manifests must match the program.

interface Deployment {
  readonly spec: {
    readonly replicas: number
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly image: string
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly ports: readonly { readonly containerPort: number }[]
          readonly resources: { readonly limits: { readonly memory: string } }
        }[]
      }
    }
  }
}

interface Role {
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules?: readonly {
    readonly apiGroups: string[]
    readonly resources: string[]
    readonly verbs: string[]
  }[]
  readonly subjects?: readonly object[]
}

const folder = path.join(MANIFESTS, 'controller')
const text = (file: string) => readFileSync(path.join(folder, file), 'utf8')
const files = readdirSync(folder).filter((file) => file !== 'kustomization.yaml')
const deployment = load(text('deployment.yaml')) as Deployment
const container =
  deployment.spec.template.spec.containers[0] ?? expect.fail('the Deployment has no container')
const environment = new Map(container.env.map(({ name, value }) => [name, value]))

describe('deploy/manifests/controller', () => {
  it('lists all its files, and is a part of deploy/manifests', () => {
    expect(
      (load(text('kustomization.yaml')) as { resources: string[] }).resources.toSorted(),
    ).toEqual(files.toSorted())
    const whole = load(readFileSync(path.join(MANIFESTS, 'kustomization.yaml'), 'utf8')) as {
      resources: string[]
    }
    expect(whole.resources).toContain('controller')
  })

  it('sets only options of the controller and of Node.js', () => {
    const known = commanderOptions(controllerOptions).map(({ envVar }) => envVar)
    for (const name of environment.keys()) expect([...known, 'NODE_OPTIONS']).toContain(name)
    // These two variables make the replicas one controller, with different names.
    for (const name of ['POD_NAME', 'POD_NAMESPACE']) expect(environment.has(name)).toBe(true)
    expect(deployment.spec.replicas).toBe(2)
  })

  it('runs the image on its configured port, and leaves memory outside the heap', () => {
    expect(container.image).toBe(IMAGE)
    expect(container.ports.map(({ containerPort }) => String(containerPort))).toEqual([
      environment.get('METRICS_PORT'),
    ])
    const heap = /--max-old-space-size=(\d+)/.exec(environment.get('NODE_OPTIONS') ?? '')?.[1]
    const limit = /^(\d+)Mi$/.exec(container.resources.limits.memory)?.[1]
    expect(Number(heap)).toBeLessThanOrEqual(Number(limit) * 0.8)
  })

  it('gives rights to one account only, none with a wildcard, and none to read Secrets', () => {
    const objects = files
      .filter((file) => file.includes('role'))
      .flatMap((file) => loadAll(text(file)) as Role[])
    for (const { subjects, rules = [] } of objects) {
      if (subjects !== undefined)
        expect(subjects).toEqual([
          { kind: 'ServiceAccount', name: 'akri-controller-sa', namespace: 'akri' },
        ])
      for (const { apiGroups, resources, verbs } of rules) {
        expect([...apiGroups, ...resources, ...verbs]).not.toContain('*')
        expect(resources).not.toContain('secrets')
      }
    }
  })
})
