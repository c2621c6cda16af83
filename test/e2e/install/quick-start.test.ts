import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HELMS, missingHelm, runHelm } from '../../helm/programs.js'
import { kubectl } from '../support/kubectl.js'
import { missingHost } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { joinNodes, missingForInstallation, provideImage, separateNodes } from './installation.js'
import { commandBlocks } from './page-commands.js'

// The commands of the README for a cluster, as they are there. Only the image comes another way.

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../../..')
const lists = commandBlocks('README.md', 'On a cluster').map((code) => code.trim().split('\n'))
const isOfImage = (command: string) => /^(docker|kind) /.test(command)
const ofCluster = lists.map((commands) => commands.filter((command) => !isOfImage(command)))

describe('the quick start of the README', () => {
  it('has five commands for kind and for k3s, which differ in the image only', () => {
    expect(lists.map((commands) => commands.length)).toEqual([5, 5])
    expect(ofCluster[0]).toHaveLength(3)
    expect(ofCluster[1]).toEqual(ofCluster[0])
  })
})

describe.for(HELMS)('the quick start with %s', (program) => {
  const lacks = missingHost() ?? missingForInstallation() ?? missingHelm(program)
  describe.skipIf(lacks !== undefined)(lacks ?? 'on this cluster', () => {
    beforeAll(async () => {
      await separateNodes()
      await provideImage()
    })

    afterAll(async () => {
      await tidyUp(
        () => runHelm(program, 'uninstall', 'akri', '--namespace', 'akri'),
        () => kubectl('delete', 'namespace', 'akri', '--timeout=120s'),
        () => joinNodes(),
      )
    })

    it('shows two devices', async () => {
      const outputs: string[] = []
      for (const command of ofCluster[0] ?? []) {
        const script = `helm() { ${program} "$@"; }\n${command}`
        const { stdout } = await run('bash', ['-ec', script], { cwd: root })
        outputs.push(stdout)
      }
      const listed = outputs.at(-1) ?? ''
      expect(listed).toMatch(/^configuration\.akri\.sh\/akri-debug-echo /m)
      expect(listed.match(/^instance\.akri\.sh\/akri-debug-echo-[0-9a-f]{6} /gm)).toHaveLength(2)
    })
  })
})
