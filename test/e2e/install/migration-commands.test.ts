import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HELMS, missingHelm } from '../../helm/programs.js'
import { kubectl, kubectlWith } from '../support/kubectl.js'
import { missingHost, NODE_1, NODES } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually } from '../support/world.js'
import {
  joinNodes,
  missingForInstallation,
  provideImage,
  removeImage,
  separateNodes,
} from './installation.js'
import { commandBlocks } from './page-commands.js'
import { writeStandIn } from './stand-in-chart.js'

// The commands of docs/migration.md as they are there, from the existing system to akri.js and
// back. A chart with the objects of the existing chart stands in for it; its Pods do nothing.

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../../..')
const PAGE = 'docs/migration.md'

const [checkForward, uninstallExisting, deleteExisting, isExistingGone, install, look, ...rest] =
  commandBlocks(PAGE, 'Forward')
const [checkBack, uninstall, deleteObjects, writeBack, installExisting, ...others] = commandBlocks(
  PAGE,
  'Back',
)
const CONFIGURATION = 'akri-debug-echo'
const INSTANCE = `${CONFIGURATION}-8120fe`

/** As the page does. */
const applyCustomResources = () =>
  kubectl(
    ...['apply', '--server-side', '--force-conflicts'],
    ...['-f', path.join(root, 'deploy/helm/akri/crds')],
  )

/** No test runs these commands: they need agents of the existing system on some of the nodes. */
const NOT_RUN = 'Forward, node by node'

it(`runs all commands of docs/migration.md except those of "${NOT_RUN}"`, () => {
  expect([rest, others]).toEqual([[], []])
  const page = readFileSync(path.join(root, PAGE), 'utf8')
  const sections = [...page.matchAll(/^## (.*)$/gm)].map(([, section = '']) => section)
  expect(sections.filter((section) => commandBlocks(PAGE, section).length > 0)).toEqual([
    'Forward',
    NOT_RUN,
    'Back',
  ])
  expect(installExisting).toContain('helm install')
})

describe.for(HELMS)('the change of releases by %s', (program) => {
  const lacks = missingHost() ?? missingForInstallation() ?? missingHelm(program)
  describe.skipIf(lacks !== undefined)(lacks ?? 'on this cluster', () => {
    let directory: string

    /** @returns the output of commands of the page in a directory with our chart and theirs */
    async function shell(commands = 'exit 1'): Promise<string> {
      const script = [
        `helm() { ${program} "$@"; }`,
        `akri() { '${process.execPath}' '${path.join(root, 'cli/dist/akri.js')}' "$@"; }`,
        // The release of this test is in the same namespace before and after the change.
        commands.replaceAll('--namespace akri', '--namespace default'),
      ]
      return (await run('bash', ['-ec', script.join('\n')], { cwd: directory })).stdout
    }

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
    const finalizers = async () =>
      kubectl('get', 'akric,akrii', '-o', 'jsonpath={.items[*].metadata.finalizers}')

    /** Also those that a failed test has left with a finalizer. */
    async function deleteConfigurations(): Promise<void> {
      const names = (await kubectl('get', 'akric,akrii', '-o', 'name')).trim().split(/\s+/)
      const none = JSON.stringify({ metadata: { finalizers: null } })
      for (const name of names.filter(Boolean))
        await kubectl('patch', name, '--type=merge', '-p', none)
      await kubectl('delete', 'akric', '--all', '--timeout=120s')
    }

    beforeAll(async () => {
      directory = await mkdtemp(path.join(os.tmpdir(), 'akri-migration-'))
      await symlink(path.join(root, 'deploy'), path.join(directory, 'deploy'))
      await mkdir(path.join(directory, 'akri-helm-charts'))
      await writeStandIn(path.join(directory, 'akri-helm-charts/akri'))
      await applyCustomResources()
      await separateNodes()
      await provideImage()
    })

    afterAll(async () => {
      await tidyUp(
        () => run(program, ['uninstall', 'akri', '--no-hooks', '--ignore-not-found']),
        () => deleteConfigurations(),
        () => applyCustomResources(),
        () => joinNodes(),
        () => removeImage(),
        () => rm(directory, { recursive: true, force: true }),
      )
    })

    it('keeps the Configurations of a release, forward and back', async () => {
      await values(true)
      await shell(installExisting?.split('\n')[0])
      const configuration = await uid(`akric/${CONFIGURATION}`)
      const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', name: CONFIGURATION }
      await applyAs(NODE_1, {
        kind: 'Instance',
        metadata: {
          name: INSTANCE,
          ownerReferences: [{ ...owner, uid: configuration, controller: true }],
        },
        spec: {
          configurationName: CONFIGURATION,
          cdiName: `akri.sh/${CONFIGURATION}=8120fe`,
          capacity: 2,
          shared: true,
          brokerProperties: { DEBUG_ECHO_DESCRIPTION: 'foo0' },
          nodes: [...NODES],
        },
      })
      const instance = await uid(`akrii/${INSTANCE}`)
      for (const [kind, name] of [
        ['Configuration', CONFIGURATION],
        ['Instance', INSTANCE],
      ] as const)
        await applyAs(`${NODE_1}-fin`, { kind, metadata: { name, finalizers: [NODE_1] } })
      const isSame = async () => {
        expect(await uid(`akric/${CONFIGURATION}`)).toBe(configuration)
        expect(await uid(`akrii/${INSTANCE}`)).toBe(instance)
      }

      expect(await shell(checkForward)).toMatch(
        new RegExp(`warning +Instance default/${INSTANCE} +its finalizer ${NODE_1} stays`),
      )
      await shell(deleteExisting)
      await programsEnd()
      await isSame()
      await shell(install)
      await eventually(async () => {
        expect(await finalizers()).toBe('')
        expect(await shell(look)).toMatch(/^nothing to change$/m)
      })
      await kubectl('wait', `akric/${CONFIGURATION}`, '--for=condition=Ready', '--timeout=120s')
      await isSame()

      expect(await shell(checkBack)).toMatch(new RegExp(`change +Instance default/${INSTANCE} `))
      await shell(deleteObjects)
      await programsEnd()
      await isSame()
      expect(await shell(writeBack)).toMatch(/^(\d+) of \1 objects changed$/m)
      await shell(installExisting)
      await isSame()
      const { stdout } = await run(program, ['list', '--namespace', 'default'])
      expect(stdout).toMatch(/^akri\s.*akri-0\.13\.26/m)
    }, 600_000)

    it('keeps Configurations that belong to no release', async () => {
      await applyCustomResources()
      await values(false)
      await run(program, ['uninstall', 'akri', '--no-hooks'])
      await deleteConfigurations()
      await shell(installExisting?.split('\n')[0])
      await kubectlWith(
        JSON.stringify({
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name: 'cam' },
          spec: {
            discoveryHandler: { name: 'debugEcho', discoveryDetails: 'descriptions: [foo0]' },
          },
        }),
        ...['apply', '-f', '-'],
      )
      const before = await uid('akric/cam')
      await shell(uninstallExisting)
      await programsEnd()
      expect(await uid('akric/cam')).toBe(before)
      await shell(install)
      await kubectl('wait', 'akric/cam', '--for=condition=Ready', '--timeout=120s')
      await shell(uninstall)
      await programsEnd()
      expect(await uid('akric/cam')).toBe(before)
    }, 600_000)
  })
})
