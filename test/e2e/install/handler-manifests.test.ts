import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { commanderOptions } from '@akrijs/runtime/program'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { agentOptions } from '../../../agent/src/program/agent-options.js'
import { IMAGE } from '../support/image.js'
import { MANIFESTS } from './installation.js'
import { fitsTo, type PatchOperation } from './json-patch.js'

// What the manifests of handlers say must be what the program understands that serves them, and what the agent expects.

interface DaemonSet {
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly automountServiceAccountToken: boolean
        readonly hostNetwork?: boolean
        readonly volumes: readonly {
          readonly name: string
          readonly hostPath: { readonly path: string }
        }[]
        readonly containers: readonly {
          readonly image: string
          readonly workingDir: string
          readonly command: readonly string[]
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly ports: readonly { readonly containerPort: number }[]
          readonly resources: { readonly limits: { readonly memory: string } }
          readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
        }[]
      }
    }
  }
}

const root = path.join(MANIFESTS, '../..')
const read = <T>(file: string) => load(readFileSync(path.join(MANIFESTS, file), 'utf8')) as T
const packages = readdirSync(path.join(root, 'handlers')).map(
  (folder): { name: string; folder: string } => ({
    folder,
    ...JSON.parse(readFileSync(path.join(root, 'handlers', folder, 'package.json'), 'utf8')),
  }),
)
const handlersDirectory: string = commanderOptions(agentOptions).find(
  ({ envVar }) => envVar === 'DISCOVERY_HANDLERS_DIRECTORY',
)?.defaultValue

describe.each(['onvif', 'opcua'])('deploy/manifests/handlers/%s', (handler) => {
  const daemonSet = read<DaemonSet>(`handlers/${handler}/daemonset.yaml`)
  const pod = daemonSet.spec.template.spec
  const container = pod.containers[0] ?? expect.fail('the DaemonSet has no container')
  const environment = new Map(container.env.map(({ name, value }) => [name, value]))

  it('lists its file, in the namespace of the agent', () => {
    expect(read(`handlers/${handler}/kustomization.yaml`)).toMatchObject({
      resources: ['daemonset.yaml'],
    })
    expect(daemonSet.metadata).toMatchObject({
      name: `akri-${handler}-discovery-daemonset`,
      namespace: 'akri',
    })
  })

  it('serves the handler out of the image of this version, without a token of the API server', () => {
    expect(container.image).toBe(IMAGE)
    expect(container.workingDir).toBe('/app')
    const [, program = '', name] = container.command
    expect(program).toBe('node_modules/@akrijs/sdk/dist/akri-handler.js')
    expect(packages.find(({ folder }) => folder === handler)?.name).toBe(name)
    expect(pod.automountServiceAccountToken).toBe(false)
  })

  it('shares the directory of the agent, and nothing else of the node', () => {
    expect(environment.get('DISCOVERY_HANDLERS_DIRECTORY')).toBe(handlersDirectory)
    expect(container.volumeMounts).toEqual([{ name: 'handlers', mountPath: handlersDirectory }])
    expect(pod.volumes).toEqual([
      { name: 'handlers', hostPath: { path: handlersDirectory, type: 'DirectoryOrCreate' } },
    ])
  })

  it('answers probes on the port that it is told, with a quarter of its memory not for the heap', () => {
    expect(container.ports.map(({ containerPort }) => String(containerPort))).toEqual([
      environment.get('METRICS_PORT'),
    ])
    const heap = /--max-old-space-size=(\d+)/.exec(environment.get('NODE_OPTIONS') ?? '')?.[1]
    const limit = /^(\d+)Mi$/.exec(container.resources.limits.memory)?.[1]
    expect(Number(heap)).toBeLessThanOrEqual(Number(limit) * 0.75)
  })
})

describe('deploy/manifests in the network of the node', () => {
  const opcua = read<DaemonSet>('handlers/opcua/daemonset.yaml')
  const agent = read<DaemonSet>('agent/daemonset.yaml')

  it('has patches that fit', () => {
    fitsTo(opcua, read<PatchOperation[]>('handlers/opcua-host-network/daemonset-patch.yaml'))
    fitsTo(agent, read<PatchOperation[]>('all-handlers/daemonset-patch.yaml'))
  })

  it('gives each program a port of its own', () => {
    const ports = ['host-network', 'handlers/opcua-host-network'].map((folder) =>
      read<PatchOperation[]>(`${folder}/daemonset-patch.yaml`).find(({ path: at }) =>
        at.endsWith('/containerPort'),
      ),
    )
    const onvif = read<DaemonSet>('handlers/onvif/daemonset.yaml').spec.template.spec
    expect(onvif.hostNetwork).toBe(true)
    const all = [
      ...ports.map((port) => port?.value),
      ...onvif.containers.flatMap(({ ports }) => ports.map((one) => one.containerPort)),
    ]
    expect(all.toSorted()).toEqual([18080, 18081, 18082])
  })

  it('has all handlers that there are in the agent, by all-handlers', () => {
    expect(read('all-handlers/kustomization.yaml')).toMatchObject({ bases: ['../host-network'] })
    const patch = read<PatchOperation[]>('all-handlers/daemonset-patch.yaml')
    const named = patch.flatMap(({ op, value }) =>
      op === 'replace' && String(value).startsWith('@') ? String(value).split(',') : [],
    )
    expect(named.toSorted()).toEqual(packages.map(({ name }) => name).toSorted())
    for (const { folder } of packages)
      expect(existsSync(path.join(root, 'handlers', folder, 'src/index.ts'))).toBe(true)
  })
})
