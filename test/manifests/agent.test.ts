import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseManifests } from '@akrijs/api'
import { commanderOptions } from '@akrijs/runtime/program'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
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
          readonly env: readonly { readonly name: string }[]
          readonly ports: readonly { readonly containerPort: number }[]
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

const daemonSet = load(read('agent/daemonset.yaml')) as DaemonSet
const pod = daemonSet.spec.template.spec
const container = pod.containers[0] ?? expect.fail('the DaemonSet has no container')
const variables = container.env.map(({ name }) => name)
const options = commanderOptions(agentOptions)
const defaultOf = (variable: string): string =>
  options.find(({ envVar }) => envVar === variable)?.defaultValue

describe('deploy/manifests', () => {
  it('mounts the directories that the agent uses by default', () => {
    const needed = {
      DISCOVERY_HANDLERS_DIRECTORY: defaultOf('DISCOVERY_HANDLERS_DIRECTORY'),
      AKRI_STATE_DIRECTORY: defaultOf('AKRI_STATE_DIRECTORY'),
      KUBELET_PLUGIN_DIRECTORY: defaultOf('KUBELET_PLUGIN_DIRECTORY'),
      KUBELET_POD_RESOURCES_SOCKET: path.dirname(defaultOf('KUBELET_POD_RESOURCES_SOCKET')),
    }
    for (const variable of Object.keys(needed)) expect(variables).not.toContain(variable)
    const mounted = container.volumeMounts.map(({ name, mountPath }) => {
      expect(pod.volumes.find((volume) => volume.name === name)?.hostPath.path).toBe(mountPath)
      return mountPath
    })
    expect(mounted.sort()).toEqual([...Object.values(needed), '/run/udev'].sort())
  })

  it('has valid examples', () => {
    for (const file of readdirSync(path.join(MANIFESTS, 'examples'))) {
      const { manifests, problems } = parseManifests(read(`examples/${file}`), file)
      expect(problems).toEqual([])
      expect(manifests.map(({ content }) => content.kind)).toEqual(['Configuration'])
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
