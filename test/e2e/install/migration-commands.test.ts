import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Helm, missingHelm } from '../../helm/programs.js'
import { describeUnless } from '../../support/unless.js'
import { kubectl, kubectlWith } from '../support/kubectl.js'
import { missingHost, NODE_1 } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { echoYaml, eventually } from '../support/world.js'
import {
  ALL_NODES,
  joinNodes,
  missingForInstallation,
  namespaceGone,
  provideImage,
  removeNamespace,
  separateNodes,
} from './installation.js'
import { commandBlocks } from './page-commands.js'
import { writeStandIn } from './stand-in-chart.js'

// The commands of docs/migration.md as they are there, from the existing system to akri.js and
// back. A chart with the objects of the existing chart stands in for it; its Pods do nothing. It is
// released by Helm 3, and akri.js by Helm 4. Each test builds on the tests before it.

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../../..')
const PAGE = 'docs/migration.md'

const [checkForward, uninstallExisting, deleteExisting, isExistingGone, install, look, ...rest] =
  commandBlocks(PAGE, 'Forward')
const [checkBack, uninstall, deleteObjects, writeBack, installExisting, ...others] = commandBlocks(
  PAGE,
  'Back',
)
const [
  checkBoth,
  keepOffLabelled,
  giveRights,
  installBeside,
  labelNode,
  returnNode,
  finish,
  ...furtherSteps
] = commandBlocks(PAGE, 'Forward, node by node')
const releaseExisting = installExisting?.split('\n')[0]
const CONFIGURATION = 'akri-debug-echo'
const INSTANCE = `${CONFIGURATION}-8120fe`

/** As the page does. */
const applyCustomResources = () =>
  kubectl(
    ...['apply', '--server-side', '--force-conflicts'],
    ...['-f', path.join(root, 'deploy/helm/akri/crds')],
  )

it('runs all commands of docs/migration.md', () => {
  expect([rest, furtherSteps, others]).toEqual([[], [], []])
  const page = readFileSync(path.join(root, PAGE), 'utf8')
  const sections = [...page.matchAll(/^## (.*)$/gm)].map(([, section = '']) => section)
  expect(sections.filter((section) => commandBlocks(PAGE, section).length > 0)).toEqual([
    'Forward',
    'Forward, node by node',
    'Back',
  ])
  expect(installExisting).toContain('helm install')
})

const lacks =
  missingHost() ?? missingForInstallation() ?? missingHelm('helm3') ?? missingHelm('helm4')
describeUnless(lacks, 'the change of releases', () => {
  let directory: string

  /** @returns the output of commands of the page in a directory with our chart and theirs */
  async function shell(commands = 'exit 1', helm: Helm = 'helm4'): Promise<string> {
    const script = [
      `helm() { ${helm} "$@"; }`,
      `akri() { '${process.execPath}' '${path.join(root, 'cli/dist/akri.js')}' "$@"; }`,
      commands,
    ]
    return (await run('bash', ['-ec', script.join('\n')], { cwd: directory })).stdout
  }
  /** The release is in one namespace before and after the change. */
  const shellInDefault = (commands?: string, helm?: Helm) =>
    shell(commands?.replaceAll('--namespace akri', '--namespace default'), helm)

  const values = (isEnabled: boolean) =>
    writeFile(
      path.join(directory, 'values.yaml'),
      JSON.stringify({
        agent: { allowDebugEcho: true },
        debugEcho: { configuration: { enabled: isEnabled, shared: true } },
      }),
    )
  const uid = (what: string) => kubectl('get', what, '-o', 'jsonpath={.metadata.uid}')
  /** Writes as an agent of the existing system does. */
  const applyAs = (manager: string, object: object) =>
    kubectlWith(
      JSON.stringify({ apiVersion: 'akri.sh/v0', ...object }),
      ...['apply', '--server-side', `--field-manager=${manager}`, '-f', '-'],
    )
  const programsEnd = () =>
    eventually(async () => expect(await shell(isExistingGone)).toBe(''), 180_000)
  /** The Pods of agents of one system, as `<node> <uid>`. */
  const agents = async (namespace: string) => {
    const columns = '{range .items[*]}{.spec.nodeName} {.metadata.uid}{"\\n"}{end}'
    const ofAgents = ['--selector', 'app.kubernetes.io/name=akri-agent']
    const running = ['--field-selector', 'status.phase=Running', '-o', `jsonpath=${columns}`]
    const lines = await kubectl('get', 'pods', '-n', namespace, ...ofAgents, ...running)
    return lines.split('\n').filter(Boolean).sort()
  }
  const nodesOf = async (namespace: string) =>
    (await agents(namespace)).map((line) => line.split(' ')[0])
  const mayExistingList = () =>
    kubectl(
      ...['auth', 'can-i', 'list', 'akrii', '--all-namespaces'],
      '--as=system:serviceaccount:default:akri-agent-sa',
    ).then(
      () => true,
      () => false,
    )
  const applyCam = () => kubectlWith(echoYaml('cam', ['foo0'], 2), 'apply', '-f', '-')
  /** As agents of the existing system do that see the one device of a Configuration. */
  async function joinAsExisting(configuration: string): Promise<string> {
    const name = `${configuration}-8120fe`
    const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', name: configuration }
    const ownerUid = await uid(`akric/${configuration}`)
    for (const node of ALL_NODES)
      await applyAs(node, {
        kind: 'Instance',
        metadata: { name, ownerReferences: [{ ...owner, uid: ownerUid, controller: true }] },
        spec: {
          configurationName: configuration,
          cdiName: `akri.sh/${configuration}=8120fe`,
          capacity: 2,
          shared: true,
          brokerProperties: { DEBUG_ECHO_DESCRIPTION: 'foo0' },
          nodes: [node],
        },
      })
    return uid(`akrii/${name}`)
  }
  const finalizers = async () =>
    kubectl('get', 'akric,akrii', '-o', 'jsonpath={.items[*].metadata.finalizers}')

  /** Also those that a failed test has left with a finalizer. */
  async function deleteConfigurations(): Promise<void> {
    const names = (await kubectl('get', 'akric,akrii', '-o', 'name')).trim().split(/\s+/)
    const none = JSON.stringify({ metadata: { finalizers: null } })
    for (const name of names.filter(Boolean))
      await kubectl('patch', name, '--type=merge', '-p', none)
    await kubectl('delete', 'akric,akrii', '--all', '--timeout=120s')
  }

  beforeAll(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-migration-'))
    await symlink(path.join(root, 'deploy'), path.join(directory, 'deploy'))
    await mkdir(path.join(directory, 'akri-helm-charts'))
    await writeStandIn(path.join(directory, 'akri-helm-charts/akri'))
    await applyCustomResources()
    await separateNodes()
    await provideImage()
    await namespaceGone()
  })

  afterAll(async () => {
    await tidyUp(
      () => run('helm4', ['uninstall', 'akri', '--no-hooks', '--ignore-not-found']),
      () => run('helm4', ['uninstall', 'akri', '-n', 'akri', '--no-hooks', '--ignore-not-found']),
      () => removeNamespace(),
      // Of a change that a failure has ended.
      () =>
        kubectl(
          ...['delete', 'daemonset,deployment,service,serviceaccount'],
          ...['--namespace=default', '--selector=app.kubernetes.io/part-of=akri'],
        ),
      () =>
        kubectl(
          ...['delete', 'clusterrole,clusterrolebinding', 'akri-existing-agent'],
          '--ignore-not-found',
        ),
      () => kubectl('label', 'node', '--all', 'akri-js-'),
      () => deleteConfigurations(),
      () => applyCustomResources(),
      () => joinNodes(),
    )
  })

  it('keeps the Configurations of a release, forward and back', async () => {
    await values(true)
    await shellInDefault(releaseExisting, 'helm3')
    const configuration = await uid(`akric/${CONFIGURATION}`)
    const instance = await joinAsExisting(CONFIGURATION)
    for (const [kind, name] of [
      ['Configuration', CONFIGURATION],
      ['Instance', INSTANCE],
    ] as const)
      await applyAs(`${NODE_1}-fin`, { kind, metadata: { name, finalizers: [NODE_1] } })
    const isSame = async () => {
      expect(await uid(`akric/${CONFIGURATION}`)).toBe(configuration)
      expect(await uid(`akrii/${INSTANCE}`)).toBe(instance)
    }

    expect(await shellInDefault(checkForward)).toMatch(
      new RegExp(`warning +Instance default/${INSTANCE} +its finalizer ${NODE_1} stays`),
    )
    // The agents of the existing system would lose their rights.
    const upgrade = ['upgrade', 'akri', 'deploy/helm/akri', '--namespace', 'default']
    await expect(run('helm4', upgrade, { cwd: directory })).rejects.toThrow(
      'DaemonSet default/akri-agent-daemonset is that of another chart',
    )
    await shellInDefault(deleteExisting)
    await programsEnd()
    await isSame()
    await shellInDefault(install)
    await eventually(async () => {
      expect(await finalizers()).toBe('')
      expect(await shellInDefault(look)).toMatch(/^nothing to change$/m)
    })
    await kubectl('wait', `akric/${CONFIGURATION}`, '--for=condition=Ready', '--timeout=120s')
    await isSame()

    expect(await shellInDefault(checkBack)).toMatch(
      new RegExp(`change +Instance default/${CONFIGURATION}-a19705 `),
    )
    await shellInDefault(deleteObjects)
    await programsEnd()
    await isSame()
    expect(await shellInDefault(writeBack)).toMatch(/^(\d+) of \1 objects? changed$/m)
    await shellInDefault(installExisting, 'helm3')
    await isSame()
    const { stdout } = await run('helm3', ['list', '--namespace', 'default'])
    expect(stdout).toMatch(/^akri\s.*akri-0\.13\.26/m)
  }, 600_000)

  it('keeps Configurations that belong to no release of the existing system', async () => {
    await applyCam()
    const before = await uid('akric/cam')
    await shellInDefault(uninstallExisting, 'helm3')
    await programsEnd()
    expect(await uid('akric/cam')).toBe(before)
  })

  it('changes one node after another, and returns a node', async () => {
    await applyCustomResources()
    await values(false)
    await shellInDefault(releaseExisting, 'helm3')
    const instance = await joinAsExisting('cam')
    const finalizersOf = async () =>
      JSON.parse(await kubectl('get', 'akrii/cam-8120fe', '-o', 'json')).metadata.finalizers
    const isSame = async () => expect(await uid('akrii/cam-8120fe')).toBe(instance)
    for (const node of ALL_NODES)
      await applyAs(`${node}-fin`, {
        kind: 'Instance',
        metadata: { name: 'cam-8120fe', finalizers: [node] },
      })
    await eventually(async () => expect(await nodesOf('default')).toEqual(ALL_NODES))
    const existing = await agents('default')

    const [, back] = (await shell(checkBoth)).split(/^Back, .*$/m)
    expect(back).not.toMatch(/^(obstacle|change) /m)
    await shell(keepOffLabelled)
    await shell(giveRights)
    expect(await mayExistingList()).toBe(true)
    await shell(installBeside)
    expect(await agents('default')).toEqual(existing)
    expect(await nodesOf('akri')).toEqual([])

    const isOfOthers = (text: string) => text.split(' ')[0] !== NODE_1
    const change = (node: string) => shell(labelNode?.replaceAll('node-a', node))
    await change(NODE_1)
    expect(await nodesOf('akri')).toEqual([NODE_1])
    await eventually(async () => {
      expect(await agents('default')).toEqual(existing.filter(isOfOthers))
      expect(await finalizersOf()).toEqual(ALL_NODES.filter(isOfOthers))
    })
    await shell(returnNode?.replaceAll('node-a', NODE_1))
    await eventually(async () => {
      expect(await nodesOf('akri')).toEqual([])
      expect(await nodesOf('default')).toEqual(ALL_NODES)
    })
    await isSame()

    // kubectl takes several nodes.
    await change(ALL_NODES.join(' '))
    await eventually(async () => {
      expect(await nodesOf('default')).toEqual([])
      expect(await finalizersOf()).toBeUndefined()
    })
    await shell(finish)
    expect(await mayExistingList()).toBe(false)
    expect(await nodesOf('akri')).toEqual(ALL_NODES)
    await kubectl('wait', 'akric/cam', '--for=condition=Ready', '--timeout=120s')
    await isSame()
    const { stdout } = await run('helm4', ['list', '--all-namespaces'])
    expect(stdout.split('\n').filter((line) => line.startsWith('akri'))).toHaveLength(1)
  }, 600_000)

  it('keeps Configurations that belong to no release of akri.js', async () => {
    const before = await uid('akric/cam')
    await shell(uninstall)
    await programsEnd()
    expect(await uid('akric/cam')).toBe(before)
  })
})
