import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { parseManifests } from '@akrijs/api'
import { valueAt } from '@akrijs/runtime'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { EXAMPLES, exampleFacts, readTemplate } from './template.js'

interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly { readonly volumeMounts: { readonly mountPath: string }[] }[]
        readonly volumes: { readonly hostPath: { readonly path: string } }[]
      }
    }
  }
}

const TEMPLATES = path.join(import.meta.dirname, '../templates')
const directory = path.join(import.meta.dirname, '../../examples/handlers')
const names = { package: '@me/pump', handler: 'pump', prefix: 'PUMP' }

it('the examples of --example are those of the gallery', async () => {
  expect((await readdir(directory)).sort()).toEqual([...EXAMPLES].sort())
})

it.each(EXAMPLES)(
  'a project from the example %s has its handler under the new name',
  async (name) => {
    const files = await readTemplate(TEMPLATES, {
      ...{ language: 'javascript', names, version: '1.2.3', example: { name, directory } },
    })
    const [handler = '', readme = '', configuration = ''] = [
      'handler.js',
      'README.md',
      'deploy/configuration.yaml',
    ].map((file) => files.get(file))
    expect(handler).toContain("name: 'pump'")
    expect(handler).toContain('PUMP_')
    expect(files.get('handler.test.js')).toContain("from './handler.js'")
    expect(readme).toMatch(/Now it finds (?!device nodes).+\./)
    expect(readme).not.toContain('/etc/hostname')
    const { reads, devices } = JSON.parse(
      await readFile(path.join(directory, name, 'example.json'), 'utf8'),
    )
    const { template } = (load(files.get('deploy/daemonset.yaml') ?? '') as DaemonSet).spec
    const mounted = template.spec.containers[0]?.volumeMounts.map(({ mountPath }) => mountPath)
    const own = devices === undefined ? reads : '/host/dev'
    expect(mounted).toEqual(['/var/lib/akri', ...(own === undefined ? [] : [own])])
    expect(template.spec.volumes.map(({ hostPath }) => hostPath.path)).toEqual(
      mounted?.map((each) => each.replace(/^\/host/, '')),
    )
    const old = new RegExp(`'${name}'|${name.toUpperCase().replaceAll('-', '_')}_|my-sensor|paths:`)
    for (const text of files.values()) expect(text).not.toMatch(old)
    expect(parseManifests(configuration, 'configuration.yaml')).toMatchObject({ problems: [] })
  },
)

it.each([
  ['csv', "akri discover ./ --details-text 'file: /etc/devices.csv'"],
  [
    'http-hub',
    "akri discover ./ --details-text 'url: http://hub.local/' --property HUB_KEY=@hub-key.txt",
  ],
] as const)('npm run discover has what the example %s needs', async (name, discover) => {
  const files = await readTemplate(TEMPLATES, {
    ...{ language: 'javascript', names, version: '1.2.3', example: { name, directory } },
  })
  const { scripts } = JSON.parse(files.get('package.json') ?? '')
  expect(scripts).toMatchObject({ discover, watch: `${discover} --watch` })
  const { property } = await exampleFacts({ name, directory })
  const readme = files.get('README.md')
  const configuration = load(files.get('deploy/configuration.yaml') ?? '')
  const reference = { secretKeyRef: { name: 'pump', key: property?.name } }
  expect(valueAt(configuration, 'spec', 'discoveryHandler', 'discoveryProperties')).toEqual(
    property && [{ name: property.name, valueFrom: reference }],
  )
  if (property === undefined) return
  expect(readme).toContain(`printf %s KEY > ${property.file}`)
  expect(readme).toContain(`secret generic pump --from-file=HUB_KEY=${property.file}`)
  for (const file of ['.gitignore', '.dockerignore'])
    expect(files.get(file)).toContain(`\n${property.file}\n`)
})
