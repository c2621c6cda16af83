import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART } from '../../helm/chart.js'
import { existingDefaults } from '../../helm/existing-defaults.js'
import { HELMS, missingHelm, runHelm } from '../../helm/programs.js'
import { kubectl } from '../support/kubectl.js'
import { missingHost, NODES } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, World } from '../support/world.js'
import {
  inPod,
  installedPods,
  joinNodes,
  missingForInstallation,
  provideImage,
  separateNodes,
} from './installation.js'

// What the end-to-end tests of the existing system look for, in a release with the values of the
// existing chart. Each test builds on the tests before it.

const ECHO = 'akri-debug-echo-discovery'
const FILE = '/tmp/debug-echo-availability.txt'
/** Kinds in which an uninstalled release could leave something. */
const KINDS = [
  'daemonsets,deployments,jobs,pods,services,secrets,serviceaccounts,roles,rolebindings',
  'leases,poddisruptionbudgets,networkpolicies,clusterroles,clusterrolebindings',
  'validatingwebhookconfigurations',
].join()

describe.for(HELMS)('a release of %s with values of the existing chart', (program) => {
  const lacks = missingHost() ?? missingForInstallation() ?? missingHelm(program)
  describe.skipIf(lacks !== undefined)(lacks ?? 'on this cluster', () => {
    let world: World
    let directory: string

    const install = () =>
      runHelm(
        program,
        'install',
        'akri',
        CHART,
        ...['--namespace', 'akri', '--skip-crds', '--wait', '--timeout', '240s'],
        ...['-f', path.join(directory, 'values.yaml')],
        ...['--set', 'agent.allowDebugEcho=true,debugEcho.discovery.enabled=true'],
        ...['--set', 'udev.discovery.enabled=true'],
      )
    const configuration = (name: string, handler: string, discoveryDetails: string) =>
      world.apply(
        JSON.stringify({
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name },
          spec: { capacity: 2, discoveryHandler: { name: handler, discoveryDetails } },
        }),
      )
    const instances = (name: string) => async () =>
      (await world.instances()).filter(({ spec }) => spec.configurationName === name).length

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
      world = await World.open()
      directory = await mkdtemp(path.join(os.tmpdir(), 'akri-values-'))
      await writeFile(path.join(directory, 'values.yaml'), JSON.stringify(existingDefaults))
      await kubectl('create', 'namespace', 'akri')
      const level = 'pod-security.kubernetes.io/enforce=privileged'
      await kubectl('label', 'namespace', 'akri', level)
    })

    afterAll(async () => {
      await tidyUp(
        () => runHelm(program, 'uninstall', 'akri', '--namespace', 'akri'),
        async () => world?.close(),
        () => kubectl('delete', 'namespace', 'akri', '--timeout=120s'),
        () => rm(directory, { recursive: true, force: true }),
        () => joinNodes(),
      )
    })

    it('runs the handlers in containers of their own', async () => {
      await install()
      for (const name of ['akri-agent', ECHO, 'akri-udev-discovery']) {
        const pods = await installedPods(name)
        expect(pods.map(({ status }) => status.phase)).toEqual(NODES.map(() => 'Running'))
      }
    })

    it('finds devices, and loses those that a test marks as offline', async () => {
      await configuration('echo', 'debugEcho', JSON.stringify({ descriptions: ['bar0', 'bar1'] }))
      await eventually(async () => expect(await instances('echo')()).toBe(2))
      const mark = async (text: string) => {
        for (const pod of await installedPods(ECHO)) await inPod(pod, `echo ${text} > ${FILE}`)
      }
      await mark('OFFLINE')
      await eventually(async () => expect(await instances('echo')()).toBe(0))
      await mark('ONLINE')
      await eventually(async () => expect(await instances('echo')()).toBe(2))
      await configuration('null', 'udev', JSON.stringify({ udevRules: ['KERNEL=="null"'] }))
      await eventually(async () => expect(await instances('null')()).toBe(NODES.length))
    })

    it('logs the rounds in which agents look for unused slots', async () => {
      for (const { metadata } of await installedPods('akri-agent')) {
        const log = await kubectl('-n', 'akri', 'logs', metadata.name)
        expect(log).toContain('reclaiming unused slots - start')
      }
    })

    it('leaves nothing behind, and the next release leads at once', async () => {
      await runHelm(program, 'uninstall', 'akri', '--namespace', 'akri', '--wait')
      expect(await world.list('Configuration')).toEqual([])
      await eventually(async () => expect(await world.instances()).toEqual([]))
      await eventually(async () => {
        const label = 'app.kubernetes.io/part-of=akri'
        const options = ['-n', 'akri', 'get', KINDS, '-l', label, '-o', 'name']
        expect(await kubectl(...options)).toBe('')
        const leases = await kubectl('-n', 'akri', 'get', 'leases', '-o', 'name')
        expect(leases).toBe('')
      })
      await install()
      const logs = async () => {
        const pods = await installedPods('akri-controller')
        const names = pods.map(({ metadata }) => metadata.name)
        return (await Promise.all(names.map((name) => kubectl('-n', 'akri', 'logs', name)))).join()
      }
      await eventually(async () => expect(await logs()).toContain('this replica leads'))
    })
  })
})
