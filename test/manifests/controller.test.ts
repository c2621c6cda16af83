import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { MANIFESTS } from './folder.js'

interface Deployment {
  readonly spec: {
    readonly replicas: number
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly ports: readonly { readonly containerPort: number }[]
        }[]
      }
    }
  }
}

const read = <T>(file: string) => load(readFileSync(path.join(MANIFESTS, file), 'utf8')) as T
const { spec } = read<Deployment>('controller/deployment.yaml')
const { env, ports } = spec.template.spec.containers[0] ?? expect.fail('there is no container')
const environment = new Map(env.map(({ name, value }) => [name, value]))

describe('deploy/manifests/controller', () => {
  it('is a part of deploy/manifests', () => {
    const { resources } = read<{ resources: string[] }>('kustomization.yaml')
    expect(resources).toContain('controller')
  })

  it('has variables that make the replicas one controller, with different names', () => {
    for (const name of ['POD_NAME', 'POD_NAMESPACE']) expect(environment.has(name)).toBe(true)
    expect(spec.replicas).toBe(2)
  })

  it('runs on its configured port', () => {
    expect(ports.map(({ containerPort }) => String(containerPort))).toEqual([
      environment.get('METRICS_PORT'),
    ])
  })
})
