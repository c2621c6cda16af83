import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { commanderOptions } from '@akrijs/runtime/program'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { MANIFESTS } from './folder.js'
import { fitsTo, type PatchOperation } from './json-patch.js'

// The handlers' manifests must match the program that serves them and the agent.

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
          readonly workingDir: string
          readonly command: readonly string[]
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly ports: readonly { readonly containerPort: number }[]
          readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
        }[]
      }
    }
  }
}

const root = path.join(MANIFESTS, '../..')
const read = <T>(file: string) => load(readFileSync(path.join(MANIFESTS, file), 'utf8')) as T
const environmentOf = ({ spec }: DaemonSet) =>
  new Map(spec.template.spec.containers[0]?.env.map(({ name, value }) => [name, value]))
const handlersDirectory: string = commanderOptions(agentOptions).find(
  ({ envVar }) => envVar === 'DISCOVERY_HANDLERS_DIRECTORY',
)?.defaultValue

const networkHandlers = builtIn.handlers.flatMap((handler) =>
  'network' in handler ? handler.name : [],
)

describe.each([
  ['onvif', ['onvif']],
  ['opcua', ['opcua']],
  ['network', networkHandlers],
])('deploy/manifests/handlers/%s', (folder, handlers) => {
  const daemonSet = read<DaemonSet>(`handlers/${folder}/daemonset.yaml`)
  const pod = daemonSet.spec.template.spec
  const container = pod.containers[0] ?? expect.fail('the DaemonSet has no container')
  const environment = environmentOf(daemonSet)

  it('lists its file, in the namespace of the agent', () => {
    expect(read(`handlers/${folder}/kustomization.yaml`)).toMatchObject({
      resources: ['daemonset.yaml'],
    })
    expect(daemonSet.metadata).toMatchObject({
      name: `akri-${folder}-discovery-daemonset`,
      namespace: 'akri',
    })
  })

  it('serves its handlers, without a token', () => {
    expect(container.workingDir).toBe('/app')
    const [, program = '', ...packages] = container.command
    expect(program).toBe('node_modules/@akrijs/sdk/dist/akri-handler.js')
    expect(packages).toEqual(
      handlers.map((name) => builtIn.handlers.find((entry) => entry.name === name)?.package),
    )
    expect(pod.automountServiceAccountToken).toBe(false)
  })

  it('shares only the directory of the agent', () => {
    expect(environment.get('DISCOVERY_HANDLERS_DIRECTORY')).toBe(handlersDirectory)
    expect(container.volumeMounts).toEqual([{ name: 'handlers', mountPath: handlersDirectory }])
    expect(pod.volumes).toEqual([
      { name: 'handlers', hostPath: { path: handlersDirectory, type: 'DirectoryOrCreate' } },
    ])
  })

  it('serves probes on its configured port', () => {
    expect(container.ports.map(({ containerPort }) => String(containerPort))).toEqual([
      environment.get('METRICS_PORT'),
    ])
  })
})

describe('deploy/manifests in the network of the node', () => {
  const opcua = read<DaemonSet>('handlers/opcua/daemonset.yaml')
  const agent = read<DaemonSet>('agent/daemonset.yaml')

  it('has patches that apply', () => {
    fitsTo(opcua, read<PatchOperation[]>('handlers/opcua-host-network/daemonset-patch.yaml'))
    fitsTo(agent, read<PatchOperation[]>('all-handlers/daemonset-patch.yaml'))
  })

  it('gives each program a port of its own', () => {
    const ports = ['host-network', 'handlers/opcua-host-network'].map((folder) =>
      read<PatchOperation[]>(`${folder}/daemonset-patch.yaml`).find(({ path: at }) =>
        at.endsWith('/containerPort'),
      ),
    )
    const [onvif, network] = ['onvif', 'network'].map((folder) => {
      const pod = read<DaemonSet>(`handlers/${folder}/daemonset.yaml`).spec.template.spec
      expect(pod.hostNetwork).toBe(true)
      return pod.containers.flatMap(({ ports }) => ports.map((item) => item.containerPort))
    })
    const all = [...ports.map((port) => port?.value), ...(onvif ?? [])]
    expect(all.toSorted()).toEqual([18080, 18081, 18082])
    // Both search for the same cameras: their Pods have no place on one node.
    expect(network).toEqual(onvif)
  })

  it('names the built-in handlers in the agent, in all-handlers and in the webhook', () => {
    const packagesOf = (names: readonly { package: string }[]) =>
      names.map((item) => item.package).join()
    const inAgent = builtIn.handlers.filter((handler) => 'runsInAgent' in handler)
    const named = (environment: ReadonlyMap<string, unknown>) => environment.get('AKRI_HANDLERS')
    expect(named(environmentOf(agent))).toBe(packagesOf(inAgent))
    expect(named(environmentOf(read<DaemonSet>('webhook/deployment.yaml')))).toBe(
      packagesOf(builtIn.handlers),
    )
    expect(read('all-handlers/kustomization.yaml')).toMatchObject({
      resources: ['../host-network'],
    })
    const patch = read<PatchOperation[]>('all-handlers/daemonset-patch.yaml')
    expect(patch).toContainEqual(
      expect.objectContaining({ op: 'replace', value: packagesOf(builtIn.handlers) }),
    )
  })

  it('has a list of built-in handlers that equals their package.json files', () => {
    const folders = readdirSync(path.join(root, 'handlers'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => `handlers/${name}`)
    expect(builtIn.handlers.map(({ folder }) => folder).toSorted()).toEqual(folders.toSorted())
    for (const { folder, name, package: packageName } of builtIn.handlers) {
      const manifest = JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8'))
      expect(manifest).toMatchObject({ name: packageName, akri: { handlers: [{ name }] } })
    }
  })
})
