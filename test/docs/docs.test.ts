import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseManifests } from '@akrijs/kube'
import { loadAll } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { udevDetails } from '../../handlers/udev/src/details.js'

const root = path.join(import.meta.dirname, '../..')
const inFolder = (folder: string, ending: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.includes('node_modules'))
    .map((name) => path.join(folder, name))
const pages = ['README.md', ...inFolder('docs', '.md')]
const text = (file: string) => readFileSync(path.join(root, file), 'utf8')

/** The blocks of one language, each with where it stands. */
function blocks(file: string, language: string): { where: string; code: string }[] {
  return [...text(file).matchAll(new RegExp(`^[ ]*\`\`\`${language}\\n(.*?)^[ ]*\`\`\`$`, 'gms'))].map((found) => ({
    where: `${file}:${text(file).slice(0, found.index).split('\n').length}`,
    code: found[1] ?? '',
  }))
}

const isConfiguration = (object: unknown) =>
  typeof object === 'object' && object !== null && 'kind' in object && object.kind === 'Configuration'

const shown = pages.flatMap((file) => blocks(file, 'yaml').filter(({ code }) => loadAll(code).some(isConfiguration)))
const examples = [
  ...inFolder('examples/standalone', '.yaml'),
  ...inFolder('examples/firmware-report', '.yaml'),
  ...inFolder('deploy/manifests/examples', '.yaml'),
]
  .filter((file) => !file.endsWith('kustomization.yaml'))
  .map((file) => ({ where: file, code: text(file) }))

describe('what the docs show', () => {
  it.each(pages)('%s links to what is there', (page) => {
    const links = [...text(page).matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)].map(([, link = '']) => link)
    expect(links.filter((link) => !existsSync(path.join(root, path.dirname(page), link)))).toEqual([])
  })

  it.each([...shown, ...examples])('$where is a Configuration that is understood', async ({ where, code }) => {
    const parsed = parseManifests(code, where)
    expect(parsed.problems).toEqual([])
    const configurations = parsed.manifests.flatMap(({ content }) =>
      content.kind === 'Configuration' ? [content.configuration] : [],
    )
    expect(configurations.length).toBeGreaterThan(0)
    for (const { spec } of configurations) {
      if (spec.discoveryHandler.name !== 'udev') continue
      const details = loadAll(spec.discoveryHandler.discoveryDetails)[0]
      const result = await udevDetails['~standard'].validate(details)
      expect(result.issues ?? []).toEqual([])
    }
  })

  it('has Configurations to look at', () => {
    expect(shown.length).toBeGreaterThan(0)
    expect(examples.length).toBeGreaterThan(1)
  })
})
