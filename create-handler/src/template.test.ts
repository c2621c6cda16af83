import path from 'node:path'
import { parseManifests } from '@akrijs/api'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import root from '../../package.json' with { type: 'json' }
import sdk from '../../sdk/package.json' with { type: 'json' }
import { DEPENDENCIES } from './names.js'
import { LANGUAGES, readTemplate, renamed } from './template.js'

const TEMPLATES = path.join(import.meta.dirname, '../templates')
// The name of the package contains a name of the template.
const names = { package: '@me/my-sensor-2', handler: 'my-sensor-2', prefix: 'MY_SENSOR_2' }
const Step = z.object({
  run: z.string().optional(),
  env: z.record(z.string(), z.string()).optional(),
})
const other = { package: '@me/pump', handler: 'pump', prefix: 'PUMP' }

describe.each(LANGUAGES)('a project in %s', (language) => {
  const read = (chosen = other) =>
    readTemplate(TEMPLATES, { language, names: chosen, version: '1.2.3' })

  it('has all that a handler needs', async () => {
    const source = language === 'javascript' ? ['handler', 'js'] : ['src/handler', 'ts']
    expect([...(await read()).keys()].sort()).toEqual(
      [
        '.dockerignore',
        '.github/workflows/publish.yml',
        '.gitignore',
        'Dockerfile',
        'README.md',
        'deploy/configuration.yaml',
        'deploy/daemonset.yaml',
        'package.json',
        ...(language === 'javascript' ? [] : ['tsconfig.json']),
        source.join('.'),
        source.join('.test.'),
      ].sort(),
    )
  })

  it('has no name of the template', async () => {
    for (const [file, text] of await read())
      expect([file, text]).toEqual([file, expect.not.stringMatching(/my.?sensor|example\/my/i)])
  })

  it('has a package that names its handler and this version of Akri', async () => {
    const manifest = JSON.parse((await read()).get('package.json') ?? '')
    expect(manifest).toMatchObject({
      name: '@me/pump',
      akri: { contract: 1, handlers: [{ name: 'pump' }] },
      engines: sdk.engines,
      dependencies: { '@akrijs/sdk': '^1.2.3', zod: `^${sdk.devDependencies.zod}` },
      devDependencies: { '@akrijs/cli': '^1.2.3' },
    })
    // npm installs no package into a package of the same name.
    for (const name of Object.keys({ ...manifest.dependencies, ...manifest.devDependencies }))
      expect(DEPENDENCIES).toContain(name)
    // What this repository uses is what its tests have tried.
    for (const name of ['typescript', '@types/node'] as const)
      if (language === 'typescript')
        expect(manifest.devDependencies[name]).toBe(`^${root.devDependencies[name]}`)
  })

  it('has manifests that this version of Akri reads', async () => {
    const files = await read()
    const text = files.get('deploy/configuration.yaml') ?? ''
    const { manifests, problems } = parseManifests(text, 'configuration.yaml')
    expect(problems).toEqual([])
    expect(manifests.map(({ content }) => content)).toMatchObject([
      { kind: 'Configuration', configuration: { name: 'pump' } },
    ])
    const daemonSet = files.get('deploy/daemonset.yaml') ?? ''
    // `akri validate deploy` and `akri run -f deploy` read it too.
    expect(parseManifests(daemonSet, 'daemonset.yaml').problems).toEqual([])
    expect(load(daemonSet)).toMatchObject({
      kind: 'DaemonSet',
      metadata: { name: 'pump' },
    })
    // An author has the image of a release or of a cluster, and no clone.
    expect(files.get('README.md')).toContain('FROM ghcr.io/OWNER/akri-agent:1.2.3')
  })

  it('has a workflow that tests the package, and publishes it with provenance', async () => {
    const text = (await read()).get('.github/workflows/publish.yml') ?? ''
    const workflow = z
      .object({
        on: z.unknown(),
        jobs: z.object({ npm: z.object({ permissions: z.unknown(), steps: z.array(Step) }) }),
      })
      .parse(load(text))
    expect(workflow.on).toEqual({ push: { tags: ['v*'] } })
    const { permissions, steps } = workflow.jobs.npm
    // npm signs the provenance with the identity of the workflow.
    expect(permissions).toEqual({ contents: 'read', 'id-token': 'write' })
    const commands = steps.flatMap(({ run }) => run?.trim() ?? [])
    expect(commands.slice(1, 3)).toEqual(['npm ci', 'npm test'])
    expect(commands[0]).toContain('= "$GITHUB_REF_NAME"')
    expect(commands[3]).toMatch(/^npm pkg set "repository\.url=.*\n *npm publish .*--provenance$/m)
    expect(commands).toHaveLength(4)
    expect(steps.at(-1)?.env).toHaveProperty('NODE_AUTH_TOKEN')
  })

  it('has a README with what the workflow needs before the first tag', async () => {
    const [, publish = ''] = ((await read()).get('README.md') ?? '').split('## Publish')
    for (const part of ['`git init`', '`package-lock.json`', '`git remote add origin', 'NPM_TOKEN'])
      expect(publish).toContain(part)
  })

  it('has a README that names only files of the project', async () => {
    const files = await read()
    const [, table = ''] = (files.get('README.md') ?? '').split('| File | Contents |')
    const cells = [...(table.split('\n\n')[0]?.matchAll(/^\| `(.*)` \|/gm) ?? [])]
    expect(cells.length).toBeGreaterThan(3)
    for (const file of cells.flatMap(([, cell = '']) => cell.split('`, `')))
      expect([...files.keys()]).toContain(file)
  })
})

it('is renamed also if the new name contains the old name', () => {
  expect(renamed('@example/my-sensor my-sensor MY_SENSOR_KIND', names)).toBe(
    '@me/my-sensor-2 my-sensor-2 MY_SENSOR_2_KIND',
  )
})
