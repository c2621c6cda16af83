import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseManifests } from '@akrijs/api'
import { commanderOptions } from '@akrijs/runtime/program'
import { load, loadAll } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
import { IMAGE } from '../e2e/support/image.js'
import { MANIFESTS } from './folder.js'
import { fitsTo, type PatchOperation } from './json-patch.js'

// The manifests must match the programs.

interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly volumes: readonly {
          readonly name: string
          readonly hostPath: { readonly path: string }
        }[]
        readonly containers: readonly {
          readonly image: string
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly ports: readonly { readonly containerPort: number }[]
          readonly resources: { readonly limits: { readonly memory: string } }
          readonly volumeMounts: readonly {
            readonly name: string
            readonly mountPath: string
            readonly readOnly?: boolean
          }[]
        }[]
      }
    }
  }
}

const read = (file: string) => readFileSync(path.join(MANIFESTS, file), 'utf8')
const packageOf = (folder: string): { name: string; version: string } =>
  JSON.parse(readFileSync(path.join(MANIFESTS, '../..', folder, 'package.json'), 'utf8'))

const daemonSet = load(read('agent/daemonset.yaml')) as DaemonSet
const pod = daemonSet.spec.template.spec
const container = pod.containers[0] ?? expect.fail('the DaemonSet has no container')
const environment = new Map(container.env.map(({ name, value }) => [name, value]))
const options = commanderOptions(agentOptions)
const defaultOf = (variable: string): string =>
  options.find(({ envVar }) => envVar === variable)?.defaultValue

describe('deploy/manifests', () => {
  it('sets only options of the agent and of Node.js', () => {
    const known = options.map(({ envVar }) => envVar)
    for (const name of environment.keys()) expect([...known, 'NODE_OPTIONS']).toContain(name)
    for (const { mandatory, envVar } of options)
      if (mandatory) expect([...environment.keys()]).toContain(envVar)
  })

  it('mounts the directories that the agent uses by default', () => {
    const needed = {
      DISCOVERY_HANDLERS_DIRECTORY: defaultOf('DISCOVERY_HANDLERS_DIRECTORY'),
      AKRI_STATE_DIRECTORY: defaultOf('AKRI_STATE_DIRECTORY'),
      KUBELET_PLUGIN_DIRECTORY: defaultOf('KUBELET_PLUGIN_DIRECTORY'),
      KUBELET_POD_RESOURCES_SOCKET: path.dirname(defaultOf('KUBELET_POD_RESOURCES_SOCKET')),
    }
    for (const variable of Object.keys(needed)) expect(environment.has(variable)).toBe(false)
    const mounted = container.volumeMounts.map(({ name, mountPath }) => {
      expect(pod.volumes.find((volume) => volume.name === name)?.hostPath.path).toBe(mountPath)
      return mountPath
    })
    expect(mounted.sort()).toEqual([...Object.values(needed), '/run/udev'].sort())
  })

  it('names the image of this version, with its handlers', () => {
    expect(container.image).toBe(IMAGE)
    expect(IMAGE.split(':')[1]).toBe(packageOf('agent').version)
    expect(environment.get('AKRI_HANDLERS')?.split(',').sort()).toEqual(
      ['handlers/debug-echo', 'handlers/udev'].map((folder) => packageOf(folder).name),
    )
  })

  it('leaves a quarter of the memory outside of the JavaScript heap', () => {
    const heap = /--max-old-space-size=(\d+)/.exec(environment.get('NODE_OPTIONS') ?? '')?.[1]
    const limit = /^(\d+)Mi$/.exec(container.resources.limits.memory)?.[1]
    expect(Number(heap)).toBeLessThanOrEqual(Number(limit) * 0.75)
  })

  it('has valid examples', () => {
    for (const file of readdirSync(path.join(MANIFESTS, 'examples'))) {
      const { manifests, problems } = parseManifests(read(`examples/${file}`), file)
      expect(problems).toEqual([])
      expect(manifests.map(({ content }) => content.kind)).toEqual(['Configuration'])
    }
  })

  it('gives rights to one account only, and none with a wildcard', () => {
    for (const file of [
      'agent/cluster-role.yaml',
      'agent/cluster-role-binding.yaml',
      'read-secrets/role.yaml',
    ]) {
      expect(read(file)).not.toContain('"*"')
      for (const object of loadAll(read(file)) as { subjects?: unknown }[])
        if (object.subjects !== undefined)
          expect(object.subjects).toEqual([
            { kind: 'ServiceAccount', name: 'akri-agent-sa', namespace: 'akri' },
          ])
    }
  })

  it('has in host-network a patch that applies to the DaemonSet', () => {
    const patch = load(read('host-network/daemonset-patch.yaml')) as PatchOperation[]
    fitsTo(daemonSet, patch)
    const ports = patch.filter(({ op }) => op === 'replace').map(({ value }) => String(value))
    expect(new Set(ports).size).toBe(1)
    expect(ports[0]).not.toBe(String(container.ports[0]?.containerPort))
  })
})
